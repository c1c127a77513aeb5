// The time axis of figures, in steps or in cycles, and its zoom.

/** Return the positions of a timeline's ticks: on the axis of steps, or on that of cycles. */
function tickPlaces(memory, inCycles) {
  if (inCycles) {
    const total = data.tick_cycles.at(-1);
    const margin = Math.max(1, total * 0.015); // the two ticks of the caller take no time
    return [-margin, ...data.tick_cycles.slice(1, -1), total, total + margin];
  }
  const places = [-1];
  let column = 0;
  for (const stretch of stretches) {
    for (let call = 0; call < stretch.calls; call += 1)
      places.push(column + (stretch.columns * call) / stretch.calls);
    column += stretch.columns;
  }
  return [...places, column, column + 1];
}

/** Describe a tick: which step, and which of its calls. */
function whenWords(tick) {
  let begun = 1;
  if (tick < begun) return "before the run: the caller writes the input";
  for (const stretch of stretches) {
    if (tick < begun + stretch.calls) {
      return (
        stretch.words +
        (stretch.calls > 1 ? ` (call ${number(tick - begun + 1)} of ${number(stretch.calls)})` : "")
      );
    }
    begun += stretch.calls;
  }
  return "after the run: the caller reads the output";
}

/** Return the buttons of a figure that zooms along its time axis; `state.zoom` calls its behaviour. */
function zoomButtons(state) {
  const button = (text, label, action) =>
    element("button", { type: "button", "aria-label": label, title: label, onclick: action }, text);
  return element(
    "span",
    { class: "group" },
    button("−", "Zoom out", () => state.zoom("scaleBy", 1 / 1.6)),
    button("+", "Zoom in", () => state.zoom("scaleBy", 1.6)),
    button("whole", "Show all", () => state.zoom("transform", d3.zoomIdentity)),
  );
}

/**
 * Show a figure in `host` and let it zoom along its time axis: with buttons, keys, Ctrl and the wheel, a
 * drag, or two fingers. `inner` is the size of the plot; `redraw(transform)` draws it, first unzoomed.
 * Sets `state.zoom` and `state.scale`, which buttons and keys call.
 */
function showWithZoom(svg, host, inner, state, redraw) {
  const whole = [
    [0, 0],
    [inner.width, inner.height],
  ];
  const behaviour = d3
    .zoom()
    .scaleExtent([1, 400])
    .extent(whole)
    .translateExtent(whole)
    .filter((event) => {
      if (event.type === "wheel") return event.ctrlKey || event.metaKey;
      return event.type !== "touchstart"
        ? !event.button
        : event.touches.length > 1 || d3.zoomTransform(event.currentTarget).k > 1;
    })
    .on("zoom", (event) => redraw(event.transform));
  svg.call(behaviour).on("dblclick.zoom", null);
  state.zoom = (method, ...values) => behaviour[method](svg, ...values);
  state.scale = () => d3.zoomTransform(svg.node()).k;
  host.replaceChildren(svg.node());
  state.zoom("transform", d3.zoomIdentity);
}

/** Let arrow keys, + and - move and zoom a figure that has the focus. */
function zoomKeys(host, state) {
  host.addEventListener("keydown", (event) => {
    if (event.target !== host) return;
    const action = {
      "+": () => state.zoom("scaleBy", 1.6),
      "=": () => state.zoom("scaleBy", 1.6),
      "-": () => state.zoom("scaleBy", 1 / 1.6),
      0: () => state.zoom("transform", d3.zoomIdentity),
      ArrowLeft: () => state.zoom("translateBy", 60 / state.scale(), 0),
      ArrowRight: () => state.zoom("translateBy", -60 / state.scale(), 0),
    }[event.key];
    if (!action) return;
    event.preventDefault();
    action();
  });
}

/** Write the numbers of steps below stretches, or cycles at round numbers; only where there is room. */
function drawTimeAxis(axis, x, places, width, inCycles) {
  if (inCycles) {
    const most = x.domain()[1];
    const marks = x
      .ticks(Math.max(1, Math.floor(width / (textWidth(number(Math.ceil(most))) + 30))))
      .filter(
        (mark) =>
          mark >= 0 &&
          mark <= most &&
          Number.isInteger(mark) &&
          x(mark) + textWidth(number(mark)) / 2 <= width + 12,
      );
    axis.call(
      d3
        .axisBottom(x)
        .tickValues(marks)
        .tickFormat((mark) => number(mark))
        .tickSize(4),
    );
  } else {
    let end = -Infinity;
    const marks = [
      { at: (x(places[0]) + x(places[1])) / 2, text: "in" },
      ...stretches.map((one) => ({
        at: (x(places[one.tick]) + x(places[one.tick + one.calls])) / 2,
        text: one.words.replace(/^steps? /, ""),
      })),
      { at: (x(places.at(-2)) + x(places.at(-1))) / 2, text: "out" },
    ];
    const shown = marks.filter(({ at, text }) => {
      const half = textWidth(text) / 2;
      if (at - half < end + 6 || at - half < -30 || at + half > width + 12) return false;
      end = at + half;
      return true;
    });
    axis.selectAll("path").data([0]).join("path").attr("d", `M0 .5H${width}`).attr("fill", "none");
    axis
      .selectAll("text.tick")
      .data(shown)
      .join("text")
      .attr("class", "tick")
      .attr("x", (mark) => mark.at)
      .attr("y", 16)
      .attr("text-anchor", "middle")
      .text((mark) => mark.text);
  }
  axis
    .selectAll("text.unit")
    .data([0])
    .join("text")
    .attr("class", "unit")
    .attr("x", width)
    .attr("y", 30)
    .attr("text-anchor", "end")
    .text(inCycles ? "cycles (estimated)" : "step");
}
