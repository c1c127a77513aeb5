// Engines: what each one does over time, to scale; their work; and the nodes that fall back to the CPU.

/** Return the colour of an engine; accelerators have the same one in all views. */
function engineColor(name) {
  const place = totals.accelerators.indexOf(name);
  return place < 0 ? "var(--processor)" : `var(--engine-${place % 5})`;
}

function swatch(engine) {
  return element("i", { class: "swatch", style: `background:${engineColor(engine)}` });
}

function engineSections() {
  const found = [];
  const spans = data.engine_spans ?? [];
  if (spans.length) found.push(engineFigure(spans));
  if (data.engines) {
    const simulated = data.engines.some((engine) => engine.simulated_cycles !== undefined);
    const { box } = sortedTable({
      caption: "Engines",
      rows: data.engines,
      columns: [
        {
          key: "engine",
          label: "engine",
          kind: "nowrap",
          value: (one) => one.name,
          show: (one) => element("span", {}, swatch(one.name), one.name),
        },
        {
          key: "cycles",
          label: "cycles,\nestimated",
          kind: "n",
          value: (one) => one.cycles,
          show: (one) => number(one.cycles),
        },
        {
          key: "share",
          label: "share",
          kind: "n",
          value: (one) => one.share,
          show: (one) => shareBar(one.share, 1),
        },
        ...(simulated
          ? [
              {
                key: "simulated",
                label: "cycles,\nsimulated",
                kind: "n",
                value: (one) => one.simulated_cycles,
                show: (one) => number(one.simulated_cycles),
              },
            ]
          : []),
        ...["nodes", "calls", "macs"].map((key) => ({
          key,
          label: key === "macs" ? "MACs" : key,
          kind: "n",
          value: (one) => one[key],
          show: (one) => number(one[key]),
        })),
      ],
    });
    const fallbacks =
      data.fallbacks &&
      sortedTable({
        caption: "CPU fallbacks",
        rows: data.fallbacks,
        columns: [
          { key: "node", label: "node", kind: "name", value: (one) => one.node },
          {
            key: "cycles",
            label: "cycles,\nestimated",
            kind: "n",
            value: (one) => one.cycles,
            show: (one) => number(one.cycles),
          },
          { key: "reason", label: "reason", kind: "long", value: (one) => one.reason },
        ],
      });
    found.push(
      section(
        "engines",
        "Work of the engines",
        "",
        "",
        box,
        ...(fallbacks
          ? [
              element("h3", {}, "CPU fallbacks"),
              fallbacks.box,
              element("p", { class: "note" }, "Nodes that no accelerator runs, and why."),
            ]
          : []),
      ),
    );
  }
  return found;
}

function shareBar(share, largest) {
  return element(
    "span",
    { class: "share" },
    element("i", { style: `background-size:${(100 * share) / largest}% 100%` }),
    percent(share),
  );
}

function engineFigure(spans) {
  const names = [...new Set(spans.map((span) => span.engine))].sort(
    (a, b) => totals.accelerators.indexOf(a) - totals.accelerators.indexOf(b),
  );
  const total = Math.max(data.tick_cycles.at(-1), ...spans.map((span) => span.upper_cycles));
  const host = element("div", {
    class: "figure",
    tabindex: "0",
    role: "group",
    "aria-label": "Engines over time. Plus and minus zoom, arrow keys move.",
  });
  const state = {};
  drawnAtWidth(host, (width) => {
    const longest = Math.max(...names.map(textWidth));
    const margin = { left: Math.min(110, longest + 12), right: 14, top: 4, bottom: 34 };
    const inner = { width: Math.max(60, width - margin.left - margin.right), height: 30 * names.length };
    const svg = d3
      .create("svg")
      .attr("width", width)
      .attr("height", inner.height + margin.top + margin.bottom)
      .attr("role", "img")
      .attr("aria-label", "What each engine does, over estimated cycles");
    svg
      .append("clipPath")
      .attr("id", "clip-engines")
      .append("rect")
      .attr("width", inner.width)
      .attr("height", inner.height);
    svg
      .append("pattern")
      .attr("id", "waits")
      .attr("width", 5)
      .attr("height", 5)
      .attr("patternUnits", "userSpaceOnUse")
      .attr("patternTransform", "rotate(45)")
      .append("rect")
      .attr("width", 2)
      .attr("height", 5)
      .attr("style", "fill:var(--peak)");
    const ground = svg.append("g").attr("transform", `translate(${margin.left},${margin.top})`);
    names.forEach((name, k) => {
      ground
        .append("text")
        .attr("x", -8)
        .attr("y", 30 * k + 15)
        .attr("text-anchor", "end")
        .attr("dominant-baseline", "central")
        .text(fitted(name, margin.left - 12))
        .append("title")
        .text(name);
    });
    const axis = ground.append("g").attr("class", "axis").attr("transform", `translate(0,${inner.height})`);
    const inside = ground.append("g").attr("clip-path", "url(#clip-engines)");
    inside
      .selectAll("rect.lane")
      .data(names)
      .join("rect")
      .attr("class", "lane")
      .attr("width", inner.width)
      .attr("height", 26)
      .attr("y", (_, k) => 30 * k + 2);
    const whole = d3.scaleLinear([0, total], [0, inner.width]);
    const bars = inside
      .append("g")
      .selectAll("rect")
      .data(spans)
      .join("rect")
      .attr("class", (span) => `span ${span.activity}`)
      .attr("height", (span) => (span.activity === "computes" ? 22 : 14))
      .attr("y", (span) => 30 * names.indexOf(span.engine) + (span.activity === "computes" ? 4 : 8))
      .attr(
        "style",
        (span) => `fill:${span.activity === "waits" ? "url(#waits)" : engineColor(span.engine)}`,
      );
    bars.each(function link(span) {
      const layers = span.layers ?? [];
      showsLayers(this, layers, false);
      highlights(
        this,
        () => layers[0] ?? null,
        () => [
          `${span.engine} ${span.activity}`,
          `${number(span.upper_cycles - span.lower_cycles)} cycles, from ${number(span.lower_cycles)} to ${number(span.upper_cycles)}`,
          layers.length > 4
            ? `for ${number(layers.length)} layers`
            : layers.map((k) => `${data.layers[k].kind} ${data.layers[k].name}`).join("; "),
        ],
      );
    });
    showWithZoom(svg, host, inner, state, (transform) => {
      const x = transform.rescaleX(whole);
      bars
        .attr("x", (span) => x(span.lower_cycles))
        .attr("width", (span) => Math.max(0.6, x(span.upper_cycles) - x(span.lower_cycles) - 0.4));
      drawTimeAxis(axis, x, [], inner.width, true);
    });
  });
  zoomKeys(host, state);
  const kinds = new Set(spans.map((span) => span.activity));
  const key = (style, text) => element("li", {}, element("i", { style }), text);
  return section(
    "timeline",
    "Engines over time",
    "",
    element("div", { class: "controls" }, zoomButtons(state)),
    element(
      "ul",
      { class: "legend" },
      names.map((name) => key(`background:${engineColor(name)};border-color:transparent`, name)),
      kinds.has("waits")
        ? key(
            "background:repeating-linear-gradient(45deg,var(--peak) 0 2px,transparent 2px 5px);border-color:transparent",
            "waits for a copy",
          )
        : "",
    ),
    host,
    element(
      "p",
      { class: "note" },
      "Widths are to scale, in estimated cycles. The cycles of a layer are those of the cost model; within a layer, calls take time in proportion to their rows.",
    ),
  );
}
