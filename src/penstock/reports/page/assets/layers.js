// The table of layers. Views select columns, so that the most important ones fit beside each other.
const COST = ["cost"];
const SPEED = ["speed"];
const OPERATOR = ["operator"];
const MEMORY = ["memory"];
const LEAST_SHARE = 1 / 5; // of the layers, that state an attribute which has a column; the panel states all

/** Return the names of the attributes that many layers have, in the order in which operators state them. */
function frequentAttributes(layers) {
  const counts = new Map();
  for (const layer of layers)
    for (const name of Object.keys(layer.attributes ?? {})) counts.set(name, (counts.get(name) ?? 0) + 1);
  return [...counts.keys()].filter((name) => counts.get(name) >= LEAST_SHARE * layers.length);
}

/** Return the first tensor of a layer with a role. */
function tensorOf(layer, role) {
  return (layer.tensors ?? []).find((one) => one.role === role);
}

/** Return the steps of a layer as rows: the name of a step says which bands it computes. */
function stepRows(layer) {
  return (layer.steps ?? []).map((step) => {
    const name = step.bands ?? `step ${step.step ?? ABSENT}`;
    return { ...step, name, full_name: name, engine: layer.engine };
  });
}

function layerSection() {
  const layers = data.layers ?? [];
  if (!layers.length) return "";
  const any = (key) => layers.some((layer) => layer[key] !== undefined);
  const measured = any("simulated_cycles");
  const cycles = (layer) => layer.simulated_cycles ?? layer.cycles;
  const largest = Math.max(1e-9, ...layers.map((layer) => cycles(layer) / totals.cycles));
  const sum = (value) => (rows) => number(rows.reduce((total, row) => total + (value(row) ?? 0), 0));
  const numeric = (key, label, value, show = number, title = undefined, total = sum(value), views = COST) => ({
    views,
    key,
    label,
    kind: "n",
    title,
    value,
    show: (layer) => show(value(layer)),
    total,
  });
  const none = () => "";
  // Simulated cycles have no total if an accelerator runs a layer, because its cycles are unknown.
  const simulatedSum = (value) => (rows) => (rows.some((row) => row.offloaded) ? ABSENT : sum(value)(rows));
  const columns = [
    {
      key: "layer",
      label: "layer",
      kind: "name",
      value: (layer) => layer.name,
      full: (layer) => layer.full_name,
      total: (rows) => `total of ${number(rows.length)}`,
    },
    numeric(
      "step",
      "step",
      (layer) => layer.step,
      (step) => (step === undefined ? ABSENT : String(step)),
      "number of the step in the program and in the C code; of several, the first",
      none,
      null,
    ),
    {
      views: [...COST, ...SPEED],
      key: "share",
      label: "share of\ncycles",
      kind: "n",
      value: (layer) => cycles(layer) / totals.cycles,
      show: (layer) => shareBar(cycles(layer) / totals.cycles, largest),
      total: (rows) => percent(rows.reduce((total, layer) => total + cycles(layer), 0) / totals.cycles),
    },
    ...(measured
      ? [
          numeric(
            "simulated",
            "cycles,\nsimulated",
            (layer) => layer.simulated_cycles,
            number,
            "cycles of the executed instructions",
            simulatedSum((layer) => layer.simulated_cycles),
            [...COST, ...SPEED],
          ),
          numeric(
            "instructions",
            "instruc-\ntions",
            (layer) => layer.instructions,
            number,
            "instructions executed",
            simulatedSum((layer) => layer.instructions),
            SPEED,
          ),
        ]
      : []),
    numeric(
      "cycles",
      "cycles,\nestimated",
      (layer) => layer.cycles,
      number,
      "cycles by the cost model",
      undefined,
      [...COST, ...SPEED],
    ),
    numeric(
      "cycles/mac",
      "cycles\nper MAC",
      (layer) => (layer.macs ? cycles(layer) / layer.macs : undefined),
      (value) => fixed(value, 2),
      "cycles per multiply-accumulate",
      none,
      SPEED,
    ),
    ...(measured && any("above_floor")
      ? [
          numeric(
            "floor",
            "over the\nfloor",
            (layer) => layer.above_floor,
            (value) => fixed(value, 2),
            "cycles relative to those of the kernel's inner loop alone",
            none,
            SPEED,
          ),
        ]
      : []),
    { key: "operator", label: "operator", kind: "nowrap", value: (layer) => layer.kind },
    ...frequentAttributes(layers).map((name) => ({
      views: OPERATOR,
      key: name,
      label: name,
      kind: "nowrap",
      value: (layer) => layer.attributes?.[name],
    })),
    ...(any("tensors")
      ? [
          {
            views: OPERATOR,
            key: "input",
            label: "input\nshape",
            kind: "nowrap",
            value: (layer) => tensorOf(layer, "input")?.shape,
          },
        ]
      : []),
    ...(any("bands")
      ? [
          numeric(
            "f",
            "F",
            (layer) => layer.factor,
            (value) => fixed(value, 2),
            "computed elements as a multiple of those of the output, over all bands of the layer",
            none,
            [...COST, ...SPEED],
          ),
          { views: MEMORY, key: "bands", label: "bands", kind: "nowrap", value: (layer) => layer.bands },
        ]
      : []),
    ...(totals.engines > 1
      ? [
          {
            views: totals.accelerators.length ? COST : [],
            key: "engine",
            label: "engine",
            kind: "nowrap",
            value: (layer) => layer.engine,
            show: (layer) => element("span", {}, swatch(layer.engine), layer.engine),
          },
        ]
      : []),
    numeric("macs", "MACs", (layer) => layer.macs, number, "multiply-accumulates executed", undefined, [...COST, ...SPEED]),
    { key: "shape", label: "output\nshape", kind: "nowrap", value: (layer) => layer.shape },
    ...(any("tensors")
      ? [
          numeric(
            "weights",
            "weight\nbytes",
            (layer) => layer.constant_bytes,
            number,
            "weights, bias and other constants, as the model stores them",
            undefined,
            OPERATOR,
          ),
          {
            views: OPERATOR,
            key: "scale",
            label: "output\nscale",
            kind: "nowrap",
            value: (layer) => tensorOf(layer, "output")?.scale,
          },
          {
            views: OPERATOR,
            key: "zero",
            label: "zero\npoint",
            kind: "n",
            value: (layer) => tensorOf(layer, "output")?.zero_point,
          },
        ]
      : []),
    numeric(
      "stored",
      "flash\nbytes",
      (layer) => layer.weight_bytes,
      number,
      "constants in flash for this layer: weights, bias, and the tables of its kernels",
      undefined,
      ["cost", "operator", "memory"],
    ),
    ...(any("ram_bytes")
      ? [
          numeric(
            "ram",
            "RAM\nlive",
            (layer) => layer.ram_bytes,
            number,
            "maximum of the live bytes of the arena while the layer runs",
            (rows) => number(Math.max(0, ...rows.map((row) => row.ram_bytes ?? 0))),
            ["cost", "memory"],
          ),
        ]
      : []),
    numeric(
      "live",
      "output bytes\nlive",
      (layer) => layer.live_bytes,
      number,
      "maximum of the output that is live at a time",
      none,
      MEMORY,
    ),
    ...(any("cascade")
      ? [
          {
            views: MEMORY,
            key: "cascade",
            label: "cascade",
            kind: "nowrap",
            value: (layer) => layer.cascade,
            show: (layer) =>
              layer.cascade === undefined
                ? ABSENT
                : `${layer.cascade}: ${layer.rows} ${layer.rows === 1 ? "row" : "rows"}`,
          },
        ]
      : []),
    numeric("calls", "calls", (layer) => layer.calls, number, undefined, undefined, MEMORY),
    ...(any("limit")
      ? [
          { views: [...COST, ...SPEED], key: "limit", label: "limited\nby", kind: "nowrap", value: (layer) => layer.limit },
          numeric(
            "used",
            "multipliers\nused",
            (layer) => layer.utilisation,
            percent,
            "utilisation of the multipliers",
            none,
            SPEED,
          ),
        ]
      : []),
    numeric("read", "bytes\nread", (layer) => layer.read_bytes, number, undefined, undefined, MEMORY),
    numeric("written", "bytes\nwritten", (layer) => layer.written_bytes, number, undefined, undefined, MEMORY),
    ...(layers.some((layer) => layer.moved_bytes !== layer.read_bytes + layer.written_bytes)
      ? [
          numeric(
            "moved",
            "bytes\nmoved",
            (layer) => layer.moved_bytes,
            number,
            "traffic that the backend states",
            undefined,
            MEMORY,
          ),
        ]
      : []),
    ...(any("requantisation")
      ? [
          {
            views: OPERATOR,
            key: "requantisation",
            label: "requanti-\nsation",
            kind: "nowrap",
            value: (layer) => layer.requantisation,
          },
        ]
      : []),
    ...(any("place")
      ? [
          {
            views: OPERATOR,
            key: "node",
            label: "node in the\nmodel file",
            kind: "name",
            value: (layer) => layer.place,
          },
        ]
      : []),
    ...(any("kernel")
      ? [
          {
            views: ["cost", "operator"],
            key: "kernel",
            label: "kernel",
            kind: "nowrap",
            value: (layer) => layer.kernel?.split(", ")[0],
          },
        ]
      : []),
  ];
  const { box, controls } = sortedTable({
    caption: "Layers",
    views: ["cost", "speed", "operator", "memory", "all"],
    columns,
    rows: layers,
    parts: stepRows,
    filtered: true,
    totals: true,
    decorate: (row, layer, index) => {
      if (layer.cascade !== undefined) row.classList.add("in-cascade");
      row.tabIndex = index ? -1 : 0;
      row.dataset.layer = index;
      showsLayers(row, [index]);
      highlights(
        row,
        () => index,
        () => null,
      );
      highlightsOnFocus(row, index);
    },
  });
  const constants = layers.filter((layer) => layer.constant);
  return section(
    "layers",
    "Layers",
    "",
    controls,
    box,
    element("p", { class: "note" }, "Click a layer, or press Enter on it, for all its facts: attributes, tensors, scales."),
    element("p", { class: "note" }, (data.notes ?? []).join(" ")),
    constants.length
      ? element(
          "details",
          {},
          element(
            "summary",
            { class: "note" },
            `Output channels of ${number(constants.length)} ${constants.length === 1 ? "layer" : "layers"} that do not depend on the input`,
          ),
          element(
            "ul",
            { class: "note" },
            constants.map((layer) =>
              element("li", {}, `${layer.name}: ${layer.constant} (channels ${layer.channels})`),
            ),
          ),
        )
      : "",
  );
}
