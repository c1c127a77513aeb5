// The frontier: cycles against memory. A dot is a schedule; the step function is the fewest cycles
// for a given memory. Every point has a command to copy.

function frontierSections() {
  const frontier = data.frontier;
  const series = (frontier?.series ?? []).filter((one) => one.points?.length);
  if (!series.length) return [];
  const points = series.flatMap((one, k) => one.points.map((point) => ({ ...point, series: k })));
  const fastest = Math.min(...series[0].points.map((point) => point.cycles));
  const above = (point) => point.cycles / Math.max(1, fastest) - 1;
  const rows = new Map();
  const host = element("div", { class: "figure" });
  const figure = points.length > 1;
  if (figure)
    drawnAtWidth(host, (width) =>
      drawFrontier(host, width, frontier, points, series, above, (point, on) =>
        rows.get(point)?.classList.toggle("hot", on),
      ),
    );
  const memories = Object.keys(points[0].moved ?? {});
  const known = (key) => points.some((point) => point[key] !== undefined);
  const numeric = (key, label, value, show = number, title = undefined) => ({
    key,
    label,
    kind: "n",
    title,
    value,
    show: (point) => show(value(point)),
  });
  const { box, controls } = sortedTable({
    caption: "Points of the frontier",
    rows: points,
    filtered: points.length > 12,
    columns: [
      {
        ...numeric("ram", "RAM,\nbytes", (point) => point.ram_bytes),
        show: (point) => element("span", {}, point.chosen ? "▸ " : "", number(point.ram_bytes)),
      },
      {
        key: "kib",
        label: "KiB",
        kind: "n",
        value: (point) => point.ram_bytes,
        show: (point) => fixed(point.ram_bytes / 1024, 2),
      },
      {
        key: "command",
        label: "command",
        value: (point) => point.command,
        show: (point) => copyButton(point.command),
      },
      numeric("cycles", "cycles,\nestimated", (point) => point.cycles),
      numeric("above", "above the\nfastest", above, (share) => percent(share, 2)),
      ...(series.length > 1
        ? [
            {
              key: "input",
              label: "input",
              kind: "nowrap",
              value: (point) => series[point.series].label.replace(/^input (an )?/, ""),
            },
          ]
        : []),
      ...(known("cascades")
        ? [
            {
              key: "cascades",
              label: "cascades:\nlayers×rows",
              kind: "name",
              value: (point) => point.cascades,
            },
          ]
        : []),
      ...(known("calls") ? [numeric("calls", "calls", (point) => point.calls)] : []),
      ...(known("arena_bytes")
        ? [
            numeric("arena", "arena", (point) => point.arena_bytes),
            numeric("live", "live", (point) => point.live_bytes),
          ]
        : []),
      ...(points.some((point) => point.static_bytes)
        ? [numeric("static", "other\nmemories", (point) => point.static_bytes)]
        : []),
      ...(new Set(points.map((point) => point.macs_executed)).size > 1
        ? [numeric("macs", "MACs\nexecuted", (point) => point.macs_executed)]
        : []),
      ...(known("factor")
        ? [
            numeric(
              "f",
              "F",
              (point) => point.factor,
              (factor) => fixed(factor, 2),
            ),
          ]
        : []),
      ...memories.flatMap((memory) => [
        numeric(`${memory}.read`, `${memory},\nbytes read`, (point) => point.moved?.[memory]?.[0]),
        numeric(`${memory}.written`, `${memory},\nwritten`, (point) => point.moved?.[memory]?.[1]),
      ]),
    ],
    decorate: (row, point) => {
      rows.set(point, row);
      if (point.chosen) row.classList.add("chosen");
      row.tabIndex = -1;
      row.setAttribute("aria-keyshortcuts", "Enter");
      row.addEventListener("keydown", (event) => {
        if (event.key === "Enter" && event.target === row) copyText(point.command);
      });
    },
  });
  const limit = frontier.limit_bytes === undefined ? "" : `, within ${bytes(frontier.limit_bytes)}`;
  const words = `Marked: ${frontier.goal}${limit}.`;
  const note = !figure
    ? words
    : "Each dot is a placed, Pareto-optimal schedule; the step function shows the fewest cycles for a given memory. " +
      `Click a dot, or press Enter on it, to copy the command that compiles it. ${words}`;
  return [
    section(
      "frontier",
      "Frontier: memory against cycles",
      "",
      controls,
      figure ? frontierLegend(points, series) : "",
      element("div", { class: known("calls") ? "pair" : "pair beside" }, figure ? host : "", box),
      element("p", { class: "note" }, note),
    ),
  ];
}

function frontierLegend(points, series) {
  const key = (kind, text) => element("li", {}, element("i", { class: kind }), text);
  return element(
    "ul",
    { class: "legend" },
    series.map((one, k) => key(`dot series-${k}`, one.label === "compiled" ? "schedule" : one.label)),
    points.some((point) => point.gap_bytes) ? key("line series-0", "pale bar: overhead of placement") : "",
    points.some((point) => point.chosen) ? key("dot ring", "selected") : "",
  );
}

function drawFrontier(host, width, frontier, points, series, above, lightRow) {
  const [low, high] = d3.extent(points, above);
  const tall = Math.max(high - low, 1e-7);
  const y = d3.scaleLinear([low - 0.08 * tall, high + 0.14 * tall], [1, 0]);
  const share = (mark) => `${+(100 * mark).toPrecision(4)} %`;
  const margin = {
    left: 12 + Math.max(...y.ticks(5).map((mark) => textWidth(share(mark)))),
    right: 16,
    top: 28,
    bottom: 38,
  };
  const height = width < 560 ? 290 : 354;
  const inner = {
    width: Math.max(60, width - margin.left - margin.right),
    height: height - margin.top - margin.bottom,
  };
  const [least, most] = d3.extent(points, (point) => point.ram_bytes);
  const logarithmic = most >= 3 * least;
  const room = Math.max(64, (most - least) * 0.06);
  const x = logarithmic
    ? d3.scaleLog([least / 1.15, most * 1.2], [0, inner.width]).base(2)
    : d3.scaleLinear([least - room, most + room], [0, inner.width]);
  y.range([inner.height, 0]);
  const svg = d3
    .create("svg")
    .attr("width", width)
    .attr("height", height)
    .attr("role", "group")
    .attr("aria-label", "Points of the frontier; the table below has the same data");
  const ground = svg.append("g").attr("transform", `translate(${margin.left},${margin.top})`);
  ground
    .append("g")
    .attr("class", "grid")
    .selectAll("line")
    .data(y.ticks(5))
    .join("line")
    .attr("x2", inner.width)
    .attr("y1", (mark) => y(mark))
    .attr("y2", (mark) => y(mark));
  ground.append("g").attr("class", "axis").call(d3.axisLeft(y).ticks(5).tickFormat(share).tickSize(3));
  ground
    .append("text")
    .attr("class", "unit axis-title")
    .attr("x", 6 - margin.left)
    .attr("y", -12)
    .text("cycles above the fastest");
  drawRamAxis(ground, x, inner, logarithmic);
  const limit = frontier.limit_bytes;
  const inRange = limit >= x.domain()[0] && limit <= x.domain()[1];
  if (inRange)
    ground
      .append("line")
      .attr("class", "budget")
      .attr("x1", x(limit))
      .attr("x2", x(limit))
      .attr("y2", inner.height);
  series.forEach((one, k) => {
    const own = points.filter((point) => point.series === k);
    const path =
      own
        .map(
          (point, i) =>
            `${i ? "H" : "M"}${x(point.ram_bytes).toFixed(1)}${i ? "V" : " "}${y(above(point)).toFixed(1)}`,
        )
        .join("") + `H${inner.width}`;
    ground.append("path").attr("class", `front series-${k}`).attr("style", "fill:none").attr("d", path);
    ground
      .append("g")
      .selectAll("line")
      .data(own.filter((point) => point.gap_bytes))
      .join("line")
      .attr("class", `whisker series-${k}`)
      .attr("x1", (point) => Math.max(0, x(Math.max(x.domain()[0], point.ram_bytes - point.gap_bytes))))
      .attr("x2", (point) => x(point.ram_bytes))
      .attr("y1", (point) => y(above(point)))
      .attr("y2", (point) => y(above(point)));
  });
  const chosen = points.find((point) => point.chosen);
  if (chosen)
    ground
      .append("circle")
      .attr("class", "ring")
      .attr("cx", x(chosen.ram_bytes))
      .attr("cy", y(above(chosen)))
      .attr("r", 9);
  ground
    .append("g")
    .selectAll("circle")
    .data(points)
    .join("circle")
    .attr("class", (point) => `point series-${point.series}`)
    .attr("r", 5)
    .attr("cx", (point) => x(point.ram_bytes))
    .attr("cy", (point) => y(above(point)))
    .attr("tabindex", "0")
    .attr("role", "button")
    .attr("aria-label", (point) => `${pointLines(point, series, above).join(", ")}. Copy the command.`)
    .on("pointerenter focus", (event, point) => {
      lightRow(point, true);
      showTip(pointLines(point, series, above), event.type === "focus" ? event.target : event);
    })
    .on("pointerleave blur", (event, point) => {
      lightRow(point, false);
      hideTip();
    })
    .on("click", (event, point) => copyText(point.command))
    .on("keydown", (event, point) => {
      if (event.key !== "Enter" && event.key !== " ") return;
      event.preventDefault();
      copyText(point.command);
    });
  placePointLabels(
    ground,
    points,
    series,
    (point) => [x(point.ram_bytes), y(above(point))],
    inner,
    inRange ? [{ text: "budget", at: [x(limit), 0], kind: "budget" }] : [],
  );
  host.replaceChildren(svg.node());
}

function pointLines(point, series, above) {
  return [
    `RAM ${bytes(point.ram_bytes)}`,
    series.length > 1 ? series[point.series].label : "",
    `${number(point.cycles)} cycles (+${percent(above(point), 2)})${point.calls === undefined ? "" : `, ${number(point.calls)} calls`}`,
    point.arena_bytes === undefined
      ? ""
      : `arena ${number(point.arena_bytes)}, live ${number(point.live_bytes)}`,
    point.cascades ? `cascades ${point.cascades}` : "",
    point.command,
  ];
}

function drawRamAxis(ground, x, inner, logarithmic) {
  const [low, high] = x.domain();
  let marks = [];
  if (logarithmic) {
    for (let power = 2 ** Math.floor(Math.log2(low)); power <= high; power *= 2)
      marks.push(power, 1.5 * power);
    marks = marks.filter((mark) => mark >= low && mark <= high);
  } else {
    let unit = 2 ** Math.ceil(Math.log2((high - low) / Math.max(2, inner.width / 70)));
    unit = Math.max(1, unit);
    marks = d3.range(Math.ceil(low / unit) * unit, high, unit);
  }
  let end = -Infinity;
  const text = (mark) => (mark / 1024).toLocaleString("en-US", { maximumFractionDigits: 2 });
  const shown = marks.filter((mark) => {
    const half = textWidth(text(mark)) / 2;
    if (x(mark) - half < end + 8) return false;
    end = x(mark) + half;
    return true;
  });
  const axis = ground
    .append("g")
    .attr("class", "axis")
    .attr("transform", `translate(0,${inner.height})`)
    .call(d3.axisBottom(x).tickValues(shown).tickFormat(text).tickSize(3));
  axis
    .append("text")
    .attr("x", inner.width)
    .attr("y", 32)
    .attr("text-anchor", "end")
    .text(`RAM in KiB${logarithmic ? " (logarithmic)" : ""}`);
}

/** Label the selected point and the extremes where the label covers neither a dot nor a label. */
function placePointLabels(ground, points, series, place, inner, extra) {
  const taken = points.map((point) => {
    const [cx, cy] = place(point);
    return { left: cx - 6, right: cx + 6, top: cy - 6, bottom: cy + 6 };
  });
  const first = points[0];
  const last = points.filter((point) => point.series === 0).at(-1);
  const streamed = points.find((point) => point.series === 1);
  const wanted = [
    [points.find((point) => point.chosen), "selected"],
    [first, "least"],
    [last, "fastest"],
    [streamed, "least, streamed"],
  ]
    .filter(([point], k, every) => point && every.findIndex(([other]) => other === point) === k)
    .map(([point, words]) => ({ at: place(point), text: `${words}: ${kib(point.ram_bytes)}` }));
  for (const label of [...wanted, ...extra]) {
    const width = textWidth(label.text);
    const [cx, cy] = label.at;
    const choices = [
      [10, -10],
      [10, 14],
      [-10 - width, -10],
      [-10 - width, 14],
      [-width / 2, -16],
      [-width / 2, 22],
      [10, 26],
      [-10 - width, 26],
      [10, -24],
    ];
    const fits = choices
      .map(([dx, dy]) => ({ left: cx + dx, right: cx + dx + width, top: cy + dy - 9, bottom: cy + dy + 3 }))
      .find(
        (box) =>
          box.left >= 2 &&
          box.right <= inner.width &&
          box.top >= -10 &&
          box.bottom <= inner.height - 2 &&
          taken.every(
            (other) =>
              box.right < other.left ||
              box.left > other.right ||
              box.bottom < other.top ||
              box.top > other.bottom,
          ),
      );
    if (!fits) continue;
    taken.push(fits);
    ground
      .append("text")
      .attr("class", "point-label")
      .attr("x", fits.left)
      .attr("y", fits.bottom - 3)
      .text(label.text);
  }
}
