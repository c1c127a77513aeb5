// The graph: layers from top to bottom in the order of their steps. A cascade is a box; a line leads
// from a layer to each reader. Lines that pass other layers have lanes of their own, so none crosses a dot.
// Arrow keys walk it: up and down along the list, left and right along the lines.

/** Return the layers in the order of their steps, each with the stretch in which it is listed. */
function listedLayers() {
  const listed = new Map();
  for (const stretch of stretches)
    for (const index of stretch.layers) if (!listed.has(index)) listed.set(index, stretch);
  data.layers.forEach((_, index) => {
    if (!listed.has(index)) listed.set(index, null); // updates of states
  });
  return [...listed].map(([index, stretch]) => ({ index, stretch }));
}

/** Return the lane of each tensor that passes layers (source, last reader, lane), and the number of lanes.
    Sources and readers are places in the list; -1 is the caller. */
function edgeLanes(listed) {
  const places = new Map(listed.map(({ index }, place) => [index, place]));
  const readers = new Map();
  listed.forEach(({ index }, reader) => {
    for (const source of data.layers[index].reads ?? []) register(readers, places.get(source) ?? -1, reader);
  });
  const busyUntil = [];
  const lanes = new Map();
  for (const source of [...readers.keys()].sort((a, b) => a - b)) {
    const last = Math.max(...readers.get(source));
    if (last - source <= 1) continue;
    let lane = busyUntil.findIndex((end) => end <= source);
    if (lane < 0) lane = busyUntil.length;
    busyUntil[lane] = last;
    lanes.set(source, lane);
  }
  return { readers, lanes, count: busyUntil.length };
}

function graphSection() {
  const layers = data.layers ?? [];
  if (!layers.length) return "";
  const listed = listedLayers();
  const pitch = 22;
  const { readers, lanes, count } = edgeLanes(listed);
  const lanePitch = Math.min(9, 90 / Math.max(1, count));
  const dots = 14 + lanePitch * count;
  const left = dots + 14;
  const host = element("div", { class: "layers" });
  const middles = [];
  const most = Math.max(1, ...layers.map(outputBytes));
  let top = pitch;
  host.append(
    element(
      "div",
      { class: "row muted", style: `padding-left:${left}px` },
      element("span", { class: "n" }, "step"),
      element("span", { class: "operator" }, "operator"),
      element("span", {}, "layer"),
      element("span", {}, "size"),
      element("span", { class: "bytes" }, "live", element("span", { class: "whole" }, ", of bytes")),
    ),
  );
  arrowKeys(host, ".row[tabindex]");
  walkKeys(host, listed);
  listed.forEach(({ index, stretch }, place) => {
    const layer = layers[index];
    const before = listed[place - 1];
    const isNew = stretch?.cascade !== undefined && stretch !== before?.stretch;
    const ownBands = (one) => (one && one.stretch === stretch ? layers[one.index].bands : undefined);
    if (isNew) {
      const own = listed.filter((one) => one.stretch === stretch);
      const height = Math.max(...own.map((one) => layers[one.index].rows ?? 1));
      const groups = own.filter((one, k) => ownBands(one) !== ownBands(own[k - 1])).length;
      const words = `cascade ${stretch.cascade}: ${height === 1 ? "row by row" : `stripes of at most ${number(height)} rows`}, ${number(stretch.kernel_calls)} calls`;
      const box = element("div", {
        class: "cascade",
        style: `left:2px;top:${top + 1}px;height:${pitch * (own.length + groups + 1) - 2}px`,
      });
      showsCascade(box, stretch.cascade);
      host.append(box, element("div", { class: "title", style: `padding-left:${left}px` }, words));
      top += pitch;
    }
    if (layer.bands !== ownBands(before)) {
      const style = `padding-left:${left}px`;
      host.append(element("div", { class: "title bands", style }, layer.bands ?? "all columns"));
      top += pitch;
    }
    host.append(layerRow(layer, index, left, most, place));
    middles[place] = top + pitch / 2;
    top += pitch;
  });
  host.append(graphEdges(listed, { readers, lanes, lanePitch, dots, middles, top, pitch }));
  const box = element(
    "div",
    {
      class: "graph sized",
      tabindex: "0",
      role: "region",
      "aria-label": "Layers in execution order, with cascades",
    },
    host,
  );
  let drawing = null;
  const mode = (words, isDrawing) =>
    element(
      "button",
      {
        type: "button",
        "aria-pressed": String(!isDrawing),
        onclick: (event) => {
          if (isDrawing && !drawing) box.append((drawing = flowDrawing(listed)));
          host.hidden = isDrawing;
          if (drawing) drawing.hidden = !isDrawing;
          for (const one of event.target.parentElement.children)
            one.setAttribute("aria-pressed", String(one === event.target));
          if (views.current !== null) reveal(views.current);
        },
      },
      words,
    );
  const controls = element(
    "div",
    { class: "controls" },
    element(
      "span",
      { class: "group", role: "group", "aria-label": "Form of the graph" },
      mode("list", false),
      mode("drawing", true),
    ),
  );
  const cascades = stretches.some((one) => one.cascade !== undefined);
  return section(
    "graph",
    cascades ? "Graph and cascades" : "Graph",
    "narrow tall",
    controls,
    scrollFrame(box, layers.length, "layers", 0),
    element(
      "p",
      { class: "note" },
      "List: layers in the order of their steps; a line leads to each layer that reads the output. Left and right arrow keys follow the lines. ",
      cascades ? "A box is a cascade. " : "",
      totals.accelerators.length ? "A square is a layer on an accelerator. " : "",
      layers.some((layer) => layer.bands)
        ? "The bar is the bytes written, with those of columns and rows that are computed again; "
        : "The bar is the whole output; ",
      "its dark part is the maximum that is live at a time. ",
      `Drawing: arrow keys walk from layer to layer; the bar is the share of cycles${cascades ? ", a shaded layer belongs to a cascade" : ""}.`,
    ),
  );
}

/** Let the left arrow key move the focus to the first layer that a row reads, the right one to its first reader. */
function walkKeys(host, listed) {
  host.addEventListener("keydown", (event) => {
    const at = Number(event.target.dataset?.layer ?? -1);
    if (at < 0 || (event.key !== "ArrowLeft" && event.key !== "ArrowRight")) return;
    const next = event.key === "ArrowLeft" ? (data.layers[at].reads ?? []) : readersOf(at);
    const to = listed.map(({ index }) => index).find((index) => next.includes(index));
    event.preventDefault();
    if (to === undefined) return;
    event.target.tabIndex = -1;
    const row = host.querySelector(`.row[data-layer="${to}"]`);
    row.tabIndex = 0;
    row.focus();
  });
}

/** Return the size of the output of a layer, which may write more bytes if it computes some again. */
function outputBytes(layer) {
  return tensorOf(layer, "output")?.size_bytes ?? layer.written_bytes;
}

function layerRow(layer, index, left, most, place) {
  const wholeBytes = outputBytes(layer);
  const liveBytes = Math.min(layer.live_bytes, wholeBytes);
  const partly = liveBytes < wholeBytes;
  const row = element(
    "div",
    { class: "row", style: `padding-left:${left}px` },
    element("span", { class: "n" }, layer.step === undefined ? ABSENT : String(layer.step)),
    element("span", { class: "operator" }, layer.kind),
    nameElement(layer.name),
    element(
      "span",
      { class: "meter" },
      element("i", { style: `width:${(100 * wholeBytes) / most}%` }),
      element("i", { style: `width:${(100 * liveBytes) / most}%` }),
    ),
    element(
      "span",
      { class: "bytes" },
      number(liveBytes),
      partly ? element("span", { class: "whole" }, ` of ${number(wholeBytes)}`) : "",
    ),
  );
  row.tabIndex = place ? -1 : 0;
  row.dataset.layer = index;
  highlightsOnFocus(row, index, () => layerLines(index));
  showsLayers(row, [index]);
  highlights(
    row,
    () => index,
    () => layerLines(index),
  );
  return row;
}

function graphEdges(listed, { readers, lanes, lanePitch, dots, middles, top, pitch }) {
  const svg = d3
    .create("svg")
    .attr("width", dots + 12)
    .attr("height", top + 2)
    .attr("aria-hidden", "true");
  const edges = svg.append("g");
  const begin = (source) => (source < 0 ? pitch * 0.6 : middles[source]);
  for (const [source, some] of readers) {
    const lane = lanes.has(source) ? dots - 12 - lanePitch * lanes.get(source) : null;
    for (const reader of some) {
      const [from, to] = [begin(source), middles[reader]];
      const path =
        reader - source <= 1 || lane === null
          ? `M${dots} ${from}V${to}`
          : `M${dots} ${from}C${dots} ${from + 11} ${lane} ${from + 4} ${lane} ${from + 15}V${to - 15}C${lane} ${to - 4} ${dots} ${to - 11} ${dots} ${to}`;
      const edge = edges.append("path").attr("class", "edge").attr("d", path).node();
      showsLayers(edge, (source < 0 ? [reader] : [source, reader]).map((place) => listed[place].index), false);
    }
  }
  listed.forEach(({ index }, place) => {
    const layer = data.layers[index];
    const y = middles[place];
    if (layer.offloaded)
      svg
        .append("rect")
        .attr("x", dots - 4)
        .attr("y", y - 4)
        .attr("width", 8)
        .attr("height", 8)
        .attr("style", `fill:${engineColor(layer.engine)}`);
    else svg.append("circle").attr("class", "dot").attr("cx", dots).attr("cy", y).attr("r", 3);
  });
  return svg.node();
}
