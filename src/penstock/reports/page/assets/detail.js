// The panel of a layer: its facts, tensors and neighbours. It is docked to the bottom of the window, so
// that it covers no column of a table. Keeping a layer highlighted opens it, Escape closes it.
const detail = element("aside", { id: "detail", "aria-label": "Layer", hidden: true });

/** Return the layers that read the output of a layer. */
function readersOf(index) {
  return data.layers.flatMap((layer, reader) => ((layer.reads ?? []).includes(index) ? [reader] : []));
}

function showDetail(index) {
  const layer = data.layers[index];
  const go = (to, label) =>
    element(
      "button",
      { type: "button", disabled: !data.layers[to], "aria-label": `${label} layer`, onclick: () => keep(to) },
      label,
    );
  detail.replaceChildren(
    element(
      "div",
      { class: "head" },
      element(
        "h2",
        {},
        totals.accelerators.length ? swatch(layer.engine) : "",
        `${layer.step === undefined ? "" : `step ${layer.step}: `}${layer.kind} `,
        element("span", { class: "muted" }, layer.name),
      ),
      element(
        "div",
        { class: "controls" },
        go(index - 1, "previous"),
        go(index + 1, "next"),
        element("button", { type: "button", "aria-keyshortcuts": "Escape", onclick: release }, "close"),
      ),
    ),
    element(
      "p",
      { class: "note origin" },
      layer.place ? `In the model file: ${shortened(layer.place)}. ` : "",
      layer.full_name === layer.name ? "" : `Tensor ${shortened(layer.full_name)}.`,
    ),
    element(
      "div",
      { class: "facts" },
      factList("Operator", operatorFacts(layer)),
      factList("Execution", executionFacts(layer)),
      factList("Cost", costFacts(layer)),
      factList("Neighbours", [
        ["reads", neighbours(layer.reads ?? [])],
        ["read by", neighbours(readersOf(index))],
      ]),
    ),
    layer.tensors ? tensorTable(layer.tensors) : "",
    layer.steps ? element("h3", {}, `Computed in ${number(layer.steps.length)} steps`) : "",
    layer.steps ? stepTable(layer) : "",
  );
  detail.hidden = false;
  detail.scrollTop = 0;
  document.body.classList.add("detailed");
}

function closeDetail() {
  detail.hidden = true;
  document.body.classList.remove("detailed");
}

function operatorFacts(layer) {
  return [
    ["operator", layer.kind],
    ...Object.entries(layer.attributes ?? {}),
    ["weights, bias", layer.constant_bytes ? bytes(layer.constant_bytes) : ""],
    ["stored in flash", layer.weight_bytes ? bytes(layer.weight_bytes) : ""],
  ];
}

function executionFacts(layer) {
  return [
    ["steps", layer.numbers],
    ["engine", layer.engine],
    ["kernel", layer.kernel],
    ["calls", number(layer.calls)],
    [
      "cascade",
      layer.cascade === undefined
        ? "runs whole"
        : `${layer.cascade}, at most ${number(layer.rows)} ${layer.rows === 1 ? "row" : "rows"} a call`,
    ],
    ["bands", layer.bands],
    ["recomputation", layer.bands ? `F ${fixed(layer.factor, 2)}` : ""],
    ["requantisation", layer.requantisation],
    ["constant", layer.constant && unfolded(layer.constant, layer.channels)],
  ];
}

function costFacts(layer) {
  const cycles = layer.simulated_cycles ?? layer.cycles;
  return [
    ["cycles, simulated", layer.simulated_cycles === undefined ? "" : number(layer.simulated_cycles)],
    ["cycles, estimated", number(layer.cycles)],
    ["share of cycles", percent(cycles / totals.cycles)],
    ["instructions", layer.instructions === undefined ? "" : number(layer.instructions)],
    ["MACs", number(layer.macs)],
    ["cycles per MAC", layer.macs ? fixed(cycles / layer.macs, 2) : ""],
    ["limited by", layer.limit],
    ["multipliers used", layer.utilisation === undefined ? "" : percent(layer.utilisation)],
    ["bytes read", number(layer.read_bytes)],
    ["bytes written", number(layer.written_bytes)],
    ["RAM live, at most", layer.ram_bytes === undefined ? "" : bytes(layer.ram_bytes)],
    ["output live, at most", bytes(layer.live_bytes)],
  ];
}

function neighbours(some) {
  return some.map((index) =>
    index < 0
      ? element("span", { class: "muted" }, "input of the network ")
      : element(
          "button",
          { type: "button", onclick: () => keep(index) },
          `${data.layers[index].step ?? ABSENT}: ${data.layers[index].name}`,
        ),
  );
}

/** Return names and values below a heading; those without a value are left out. */
function factList(heading, facts) {
  return element(
    "section",
    {},
    element("h3", {}, heading),
    element(
      "dl",
      {},
      facts
        .filter(([, value]) => value !== undefined && value !== "" && value.length !== 0)
        .flatMap(([name, value]) => [element("dt", {}, name), element("dd", {}, value)]),
    ),
  );
}

function tensorTable(tensors) {
  const { box } = sortedTable({
    caption: "Tensors",
    rows: tensors,
    columns: [
      {
        key: "name",
        label: "tensor",
        kind: "name",
        value: (one) => one.name,
        full: (one) => one.full_name,
      },
      { key: "role", label: "role", kind: "nowrap", value: (one) => one.role },
      { key: "shape", label: "shape", kind: "nowrap", value: (one) => one.shape },
      { key: "type", label: "type", kind: "nowrap", value: (one) => one.element_type },
      { key: "bytes", label: "bytes", kind: "n", value: (one) => one.size_bytes, show: (one) => number(one.size_bytes) },
      {
        key: "scale",
        label: "scale",
        kind: "nowrap",
        value: (one) => one.scale,
        show: (one) => (one.scales ? unfolded(one.scale, one.scales.join("  ")) : (one.scale ?? ABSENT)),
      },
      { key: "zero", label: "zero point", kind: "n", value: (one) => one.zero_point },
    ],
  });
  return box;
}

/** Return words that show more text on demand. */
function unfolded(words, more) {
  return element(
    "details",
    { class: "more" },
    element("summary", {}, words),
    element("div", {}, more),
  );
}

/** Return the steps of a layer that runs in several, as a table. */
function stepTable(layer) {
  const count = (key, label) => ({
    key,
    label,
    kind: "n",
    value: (one) => one[key],
    show: (one) => number(one[key]),
  });
  const simulated = layer.steps.some((one) => one.simulated_cycles !== undefined);
  const { box } = sortedTable({
    caption: "Steps",
    rows: layer.steps,
    columns: [
      {
        key: "step",
        label: "step",
        kind: "nowrap",
        value: (one) => one.step,
        show: (one) => (one.step === undefined ? ABSENT : String(one.step)),
      },
      { key: "operator", label: "operator", kind: "nowrap", value: (one) => one.kind },
      { key: "bands", label: "bands", kind: "nowrap", value: (one) => one.bands },
      { key: "shape", label: "output of a band", kind: "nowrap", value: (one) => one.shape },
      count("calls", "calls"),
      count("macs", "MACs"),
      ...(simulated ? [count("simulated_cycles", "cycles, simulated")] : []),
      count("cycles", "cycles, estimated"),
      { key: "kernel", label: "kernel", kind: "nowrap", value: (one) => one.kernel },
    ],
  });
  return box;
}
