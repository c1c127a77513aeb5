// The memory figure: address against time. A block is a tensor, its width the live range, its height
// the bytes. The curve is the sum of live bytes. Time is measured in steps, or in cycles.

/** Draw a memory into `host`. `state.inCycles` selects the axis. Returns a function that redraws. */
function memoryFigure(memory, host, state) {
  const margin = { left: 44, right: 14, top: 26, bottom: 34 };
  const blocks = memory.blocks ?? [];
  const changes = memory.live.map(([when]) => when);

  function draw(width) {
    const height = width < 560 ? 320 : 400;
    const inner = {
      width: Math.max(60, width - margin.left - margin.right),
      height: height - margin.top - margin.bottom,
    };
    const places = tickPlaces(memory, state.inCycles);
    const highest = Math.max(
      1,
      memory.height_bytes,
      (memory.budget_bytes ?? 0) <= 1.5 * memory.height_bytes ? (memory.budget_bytes ?? 0) : 0,
    );
    const whole = d3.scaleLinear([places[0], places.at(-1)], [0, inner.width]);
    const y = d3.scaleLinear([0, 1.06 * highest], [inner.height, 0]);
    const clip = `clip-${state.id}`;
    const svg = d3
      .create("svg")
      .attr("width", width)
      .attr("height", height)
      .attr("role", "img")
      .attr(
        "aria-label",
        `Blocks of memory ${memory.name} over time; the table of layers lists the same steps`,
      );
    svg
      .append("clipPath")
      .attr("id", clip)
      .append("rect")
      .attr("width", inner.width)
      .attr("height", inner.height);
    const ground = svg.append("g").attr("transform", `translate(${margin.left},${margin.top})`);
    drawByteAxis(ground, y, inner, highest);
    const timeAxis = ground
      .append("g")
      .attr("class", "axis")
      .attr("transform", `translate(0,${inner.height})`);
    const strips = ground.append("g");
    const inside = ground.append("g").attr("clip-path", `url(#${clip})`);
    const grounds = inside.append("g");
    const plot = inside
      .append("rect")
      .attr("class", "plot")
      .attr("width", inner.width)
      .attr("height", inner.height);
    const run = inside
      .append("rect")
      .attr("class", "run")
      .attr("height", inner.height)
      .attr("visibility", "hidden");
    const paths = inside
      .append("g")
      .selectAll("path")
      .data(blocks)
      .join("path")
      .attr(
        "class",
        (block, k) =>
          `block kind-${block.kind}${block.by_rows ? ` rows${block.kind === "arena" ? ` shade-${k % 6}` : ""}` : ""}`,
      );
    const halo = inside.append("path").attr("class", "curve-halo");
    const curve = inside.append("path").attr("class", "curve");
    const level = (bytesAt, kind) =>
      inside
        .append("line")
        .attr("class", kind)
        .attr("x2", inner.width)
        .attr("y1", y(bytesAt))
        .attr("y2", y(bytesAt));
    if (memory.height_bytes > memory.peak_bytes) level(memory.height_bytes, "height");
    level(memory.peak_bytes, "peak");
    if (memory.budget_bytes !== undefined && memory.budget_bytes <= 1.06 * highest)
      level(memory.budget_bytes, "budget");
    const dot = inside
      .append("circle")
      .attr("class", "peak-dot")
      .attr("r", 4)
      .attr("cy", y(memory.peak_bytes));
    const labels = inside.append("g");
    let x = whole;

    function tickAt(event) {
      const at = x.invert(d3.pointer(event, ground.node())[0]);
      return Math.max(0, Math.min(memory.ticks - 1, d3.bisectRight(places, at) - 1));
    }
    function liveAt(tick) {
      return memory.live[d3.bisectRight(changes, tick) - 1]?.[1] ?? 0;
    }
    /** The least and the largest y coordinate of the curve between two x coordinates. */
    function curveBetween(left, right) {
      const tickOf = (pixel) =>
        Math.max(0, Math.min(memory.ticks - 1, d3.bisectRight(places, x.invert(pixel)) - 1));
      const first = Math.max(0, d3.bisectRight(changes, tickOf(left)) - 1);
      const end = Math.max(first + 1, d3.bisectRight(changes, tickOf(right)));
      return d3.extent(memory.live.slice(first, end), ([, live]) => y(live));
    }
    paths.each(function link(block) {
      const layers = block.layers ?? [];
      showsLayers(this, layers, block.kind !== "scratch" && block.kind !== "constant");
      highlights(
        this,
        () => (block.kind === "scratch" && layers.length > 1 ? null : (layers[0] ?? null)),
        (event) => blockLines(block, tickAt(event), liveAt),
      );
    });
    function showTick(event) {
      const tick = tickAt(event);
      showTip([whenWords(tick), `${bytes(liveAt(tick))} live in ${memory.name}`], event);
    }
    plot
      .on("pointermove", showTick)
      .on("pointerleave", hideTip)
      .on("click", (event) => {
        release();
        showTick(event);
      });

    function redraw(transform) {
      x = transform.rescaleX(whole);
      const at = (tick) => x(places[tick]);
      paths.attr("d", (block) =>
        block.areas
          .map(
            ([lower, upper, born, dead]) =>
              `M${at(born).toFixed(1)} ${y(lower).toFixed(1)}H${at(dead).toFixed(1)}V${y(upper).toFixed(1)}H${at(born).toFixed(1)}Z`,
          )
          .join(""),
      );
      const line =
        memory.live
          .map(
            ([tick, live], k) =>
              `${k ? "" : "M"}${k ? "H" : ""}${at(tick).toFixed(1)}${k ? "V" : " "}${y(live).toFixed(1)}`,
          )
          .join("") + `H${at(memory.ticks).toFixed(1)}`;
      halo.attr("d", line);
      curve.attr("d", line);
      dot.attr("cx", (at(memory.peak_tick) + at(memory.peak_tick + 1)) / 2);
      drawBlockLabels(labels, blocks, at, y, inner.width, curveBetween);
      drawTimeAxis(timeAxis, x, places, inner.width, state.inCycles);
      drawStrips(strips, grounds, x, places, inner);
      markRun(views.current);
    }
    function markRun(layer) {
      const stretch =
        layer === null || layer === undefined
          ? undefined
          : stretches.find((one) => one.layers.includes(layer));
      run.attr("visibility", stretch ? "visible" : "hidden");
      if (stretch)
        run
          .attr("x", x(places[stretch.tick]))
          .attr("width", Math.max(1, x(places[stretch.tick + stretch.calls]) - x(places[stretch.tick])));
    }
    state.markRun = markRun;
    showWithZoom(svg, host, inner, state, redraw);
  }
  onHighlight((layer) => state.markRun?.(layer));
  host.tabIndex = 0;
  host.setAttribute("role", "group");
  host.setAttribute("aria-label", `Memory ${memory.name} over time. Plus and minus zoom, arrow keys move.`);
  drawnAtWidth(host, (width) => {
    state.width = width;
    draw(width);
  });
  zoomKeys(host, state);
  return () => {
    draw(state.width);
    forgetReplaced();
  };
}

/** Return the facts about a block as lines. */
function blockLines(block, tick, liveAt) {
  const lower = Math.min(...block.areas.map((area) => area[0]));
  const upper = Math.max(...block.areas.map((area) => area[1]));
  const born = Math.min(...block.areas.map((area) => area[2]));
  const dead = Math.max(...block.areas.map((area) => area[3]));
  const kind = KINDS[block.kind] ?? block.kind;
  return [
    `${block.name} (${kind})`,
    block.full_name === block.name ? "" : shortened(block.full_name),
    `${block.by_rows ? "row by row, at most " : ""}${bytes(block.most_bytes)} at [${number(lower)}, ${number(upper)})`,
    `live: ${whenWords(born)} to ${whenWords(dead - 1)}`,
    `here: ${whenWords(tick)}, ${number(liveAt(tick))} bytes live in all`,
  ];
}

function drawByteAxis(ground, y, inner, highest) {
  const unit = byteUnit(highest, Math.max(3, Math.min(9, inner.height / 40)));
  const marks = d3.range(0, 1.06 * highest, unit);
  const scaled = unit >= 1024;
  ground
    .append("g")
    .attr("class", "grid")
    .selectAll("line")
    .data(marks)
    .join("line")
    .attr("x2", inner.width)
    .attr("y1", (mark) => y(mark))
    .attr("y2", (mark) => y(mark));
  const axis = ground
    .append("g")
    .attr("class", "axis")
    .call(
      d3
        .axisLeft(y)
        .tickValues(marks)
        .tickFormat((mark) => number(scaled ? mark / 1024 : mark))
        .tickSize(3),
    );
  axis
    .append("text")
    .attr("class", "unit")
    .attr("x", -40)
    .attr("y", -12)
    .attr("text-anchor", "start")
    .text(scaled ? "KiB" : "bytes");
}

/** Draw a strip above the figure and a ground inside of it for each cascade. */
function drawStrips(strips, grounds, x, places, inner) {
  const cascades = stretches.filter((one) => one.cascade !== undefined);
  const left = (one) => Math.max(0, Math.min(inner.width, x(places[one.tick])));
  const right = (one) => Math.max(0, Math.min(inner.width, x(places[one.tick + one.calls])));
  grounds
    .selectAll("rect")
    .data(cascades)
    .join("rect")
    .attr("class", "strip-ground")
    .attr("height", inner.height)
    .attr("x", left)
    .attr("width", (one) => right(one) - left(one));
  strips
    .selectAll("rect")
    .data(cascades)
    .join((enter) =>
      enter
        .append("rect")
        .attr("class", "strip")
        .each(function link(one) {
          showsCascade(this, one.cascade);
          highlights(
            this,
            () => null,
            () => [
              `cascade ${one.cascade}`,
              one.words,
              `${number(one.kernel_calls)} calls of ${number(one.layers.length)} layers, interleaved`,
            ],
          );
        }),
    )
    .attr("x", left)
    .attr("y", -18)
    .attr("height", 14)
    .attr("width", (one) => Math.max(0, right(one) - left(one)));
  strips
    .selectAll("text")
    .data(cascades)
    .join("text")
    .attr("class", "strip-label")
    .attr("text-anchor", "middle")
    .attr("y", -7.5)
    .attr("x", (one) => (left(one) + right(one)) / 2)
    .text(
      (one) =>
        [
          `cascade ${one.cascade}: ${number(one.kernel_calls)} calls`,
          `cascade ${one.cascade}`,
          `${one.cascade}`,
        ].find((text) => textWidth(text) + 8 <= right(one) - left(one)) ?? "",
    );
}

const KINDS = {
  io: "input, output",
  arena: "activations",
  scratch: "scratch",
  constant: "copied constants",
  state: "state",
};

/** Return the sections of all memories. */
function memorySections() {
  return (data.memories ?? []).map((memory, index) => {
    const host = element("div", { class: "figure" });
    const state = { id: index, inCycles: false };
    const redraw = memoryFigure(memory, host, state);
    const axis = (text, inCycles) =>
      element(
        "button",
        {
          type: "button",
          "aria-pressed": String(state.inCycles === inCycles),
          onclick: (event) => {
            state.inCycles = inCycles;
            for (const one of event.target.parentElement.children)
              one.setAttribute("aria-pressed", String(one === event.target));
            redraw();
          },
        },
        text,
      );
    const controls = element(
      "div",
      { class: "controls" },
      data.tick_cycles?.at(-1)
        ? element(
            "span",
            { class: "group", role: "group", "aria-label": "Unit of the time axis" },
            axis("steps", false),
            axis("cycles", true),
          )
        : "",
      zoomButtons(state),
    );
    const kinds = [...new Set((memory.blocks ?? []).map((block) => block.kind))];
    const key = (kind, ...text) => element("li", {}, element("i", { class: kind }), ...text);
    const legend = element(
      "ul",
      { class: "legend" },
      Object.keys(KINDS)
        .filter((kind) => kinds.includes(kind))
        .map((kind) => key(`kind-${kind}`, KINDS[kind])),
      key("line live", "live bytes"),
      key(
        "line dashed peak",
        "peak ",
        element("b", {}, bytes(memory.peak_bytes)),
        `, ${whenWords(memory.peak_tick)}`,
      ),
      memory.height_bytes > memory.peak_bytes
        ? key("line height", `${memory.name} `, element("b", {}, bytes(memory.height_bytes)))
        : "",
      memory.budget_bytes === undefined
        ? ""
        : key(
            "line dashed budget",
            `budget ${bytes(memory.budget_bytes)}${memory.budget_bytes > 1.5 * memory.height_bytes ? ", above this figure" : ""}`,
          ),
    );
    return section(
      index ? `memory-${index}` : "memory",
      index ? `Memory over time: ${memory.name}` : "Memory over time",
      index ? "" : "wide",
      controls,
      legend,
      host,
      element(
        "p",
        { class: "note" },
        "A block is a tensor: its width is the live range, its height the number of bytes. The layers of a cascade run interleaved; there, a tensor is the area of its live rows. " +
          "Hover for names and addresses; click to keep a layer highlighted.",
      ),
    );
  });
}
