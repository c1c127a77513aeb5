// Resources of accelerators: for each layer, the cycles for which it uses each of them.
function resourceSection() {
  const rows = (data.layers ?? [])
    .map((layer, index) => ({ layer, index }))
    .filter(({ layer }) => layer.resources);
  if (!rows.length) return "";
  const names = [...new Set(rows.flatMap(({ layer }) => Object.keys(layer.resources)))].sort();
  const color = (name) => `var(--resource-${names.indexOf(name) % 8})`;
  const most = Math.max(
    1,
    ...rows.map(({ layer }) => Math.max(layer.cycles, ...Object.values(layer.resources))),
  );
  const lines = rows.map(({ layer, index }) => {
    const row = element(
      "div",
      { class: "row resources" },
      element("span", { class: "n" }, layer.step === undefined ? ABSENT : String(layer.step)),
      nameElement(layer.name),
      element(
        "span",
        {},
        Object.entries(layer.resources).map(([name, cycles]) =>
          element("i", {
            class: name === layer.limit ? "thin limit" : "thin",
            style: `width:${(100 * cycles) / most}%;background:${color(name)}`,
            title: `${name}: ${number(cycles)} cycles`,
          }),
        ),
      ),
      element("span", {}, `${layer.limit} ${number(layer.resources[layer.limit])}`),
      element("span", { class: "n used" }, percent(layer.utilisation)),
    );
    showsLayers(row, [index]);
    highlights(
      row,
      () => index,
      () => [
        ...layerLines(index),
        ...Object.entries(layer.resources).map(
          ([name, cycles]) => `${name}: ${number(cycles)} of ${number(layer.cycles)} cycles`,
        ),
      ],
    );
    return row;
  });
  const head = element(
    "div",
    { class: "row resources muted" },
    element("span", { class: "n" }, "step"),
    element("span", {}, "layer"),
    element("span", {}, `cycles, 0 to ${number(most)}`),
    element("span", {}, "limited by"),
    element("span", { class: "n used" }, "MACs used"),
  );
  return section(
    "resources",
    "Limiting resources of accelerators",
    "",
    "",
    element(
      "ul",
      { class: "legend" },
      names.map((name) =>
        element(
          "li",
          {},
          element("i", { style: `background:${color(name)};border-color:transparent` }),
          name,
        ),
      ),
    ),
    element(
      "div",
      { class: "graph sized", tabindex: "0", role: "region", "aria-label": "Resources that each layer uses" },
      element("div", { class: "layers" }, head, lines),
    ),
    element(
      "p",
      { class: "note" },
      "Cycles for which a layer uses each resource, including overlapped ones. The thick bar is the limiting resource, which is used longest; the last column is the utilisation of the multipliers.",
    ),
  );
}
