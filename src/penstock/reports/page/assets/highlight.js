// Linked highlighting: a layer under the pointer, or with the focus, is marked in every view.
//
// A view registers its elements by layer or by cascade. The layer itself is "hot", the layers whose
// outputs it reads are "warm". Enter or a click keeps a layer highlighted, and its panel open, until Escape.
const views = {
  layers: new Map(),
  cascades: new Map(),
  listeners: [],
  marked: [],
  kept: null,
  current: null,
};

function register(map, key, found) {
  if (!map.has(key)) map.set(key, []);
  map.get(key).push(found);
}

/** Register an element that shows layers; `reaches` whether it also lights up as an input. */
function showsLayers(found, layers, reaches = true) {
  for (const layer of layers) register(views.layers, layer, { found, reaches });
}

function showsCascade(found, cascade) {
  register(views.cascades, cascade, { found });
}

/** Forget elements that a view has replaced. */
function forgetReplaced() {
  for (const map of [views.layers, views.cascades]) {
    for (const [key, some] of map)
      map.set(
        key,
        some.filter(({ found }) => found.isConnected),
      );
  }
}

/** Call `listener(layer)` when the highlighted layer changes; null if there is none. */
function onHighlight(listener) {
  views.listeners.push(listener);
}

function highlight(layer) {
  const wanted = layer ?? views.kept;
  if (wanted === views.current) return;
  views.current = wanted;
  for (const found of views.marked) found.classList.remove("hot", "warm");
  views.marked = [];
  document.body.classList.toggle("lit", wanted !== null);
  if (wanted !== null) {
    for (const source of data.layers[wanted].reads ?? []) {
      mark(
        (views.layers.get(source) ?? []).filter((one) => one.reaches),
        "warm",
      );
    }
    mark(views.layers.get(wanted) ?? [], "hot");
    mark(views.cascades.get(data.layers[wanted].cascade) ?? [], "hot");
  }
  for (const listener of views.listeners) listener(wanted);
}

function mark(some, kind) {
  for (const { found } of some) {
    found.classList.remove("warm");
    found.classList.add(kind);
    views.marked.push(found);
  }
}

/** Keep a layer highlighted, or no longer. */
function keep(layer) {
  views.kept = views.kept === layer ? null : layer;
  views.current = undefined;
  highlight(layer);
  if (views.kept === null) closeDetail();
  else showDetail(layer);
  announce(views.kept === null ? "" : `${data.layers[layer].name} stays highlighted; Escape closes its panel`);
}

function release() {
  views.kept = null;
  views.current = undefined;
  highlight(null);
  hideTip();
  closeDetail();
}

/** Let an element highlight a layer: `find(event)` returns the layer, `lines(event)` its tooltip. */
function highlights(found, find, lines) {
  found.addEventListener("pointerenter", (event) => highlight(find(event)));
  found.addEventListener("pointermove", (event) => {
    const text = lines(event);
    if (text) showTip(text, event);
  });
  found.addEventListener("pointerleave", () => {
    highlight(null);
    hideTip();
  });
  // The panel replaces the tooltip. A finger leaves an element before the click, so the tooltip of an
  // element that belongs to no layer is shown again.
  found.addEventListener("click", (event) => {
    const layer = find(event);
    if (layer !== null && layer !== undefined) {
      keep(layer);
      hideTip();
      return;
    }
    const text = lines(event);
    if (text) showTip(text, event);
  });
}

/** Let an element with the focus highlight a layer, and Enter keep it; `lines` is its tooltip. */
function highlightsOnFocus(found, layer, lines = () => null) {
  found.addEventListener("focus", () => {
    // An open panel follows the keyboard; a click comes after the focus and decides itself.
    if (views.kept !== null && views.kept !== layer && found.matches(":focus-visible")) keep(layer);
    highlight(layer);
    const text = views.kept === null ? lines() : null;
    if (text) showTip(text, found);
  });
  found.addEventListener("blur", () => {
    highlight(null);
    hideTip();
  });
  found.addEventListener("keydown", (event) => {
    if ((event.key !== "Enter" && event.key !== " ") || event.target !== found) return;
    event.preventDefault();
    keep(layer);
  });
}

/** Scroll the lists of other views so that they show a layer. */
function reveal(layer) {
  for (const { found } of views.layers.get(layer) ?? []) {
    const list = found.closest(".graph, .box");
    if (!list || list.matches(":hover") || list.contains(document.activeElement)) continue;
    const [row, frame] = [found.getBoundingClientRect(), list.getBoundingClientRect()];
    const hidden = row.top < frame.top + 40 || row.bottom > frame.bottom - 40;
    if (hidden) list.scrollTop += row.top + row.height / 2 - frame.top - frame.height / 2;
  }
}
onHighlight((layer) => {
  if (layer !== null) reveal(layer);
});

/** Return the facts about a layer as lines. */
function layerLines(index) {
  const layer = data.layers[index];
  const cycles = layer.simulated_cycles ?? layer.cycles;
  return [
    `${layer.step === undefined ? "" : `step ${layer.step}: `}${layer.kind}`,
    shortened(layer.full_name),
    `output ${layer.shape}, ${bytes(layer.written_bytes)} written`,
    layer.live_bytes < layer.written_bytes ? `at most ${bytes(layer.live_bytes)} live at a time` : "",
    `${number(cycles)} cycles (${percent(cycles / totals.cycles)}), ${number(layer.macs)} MACs, ${number(layer.calls)} ${layer.calls === 1 ? "call" : "calls"}`,
    layer.cascade === undefined
      ? ""
      : `cascade ${layer.cascade}, at most ${number(layer.rows)} ${layer.rows === 1 ? "row" : "rows"} a call`,
    layer.bands ? `${layer.bands}; F of the layer ${fixed(layer.factor, 2)}` : "",
    totals.engines > 1 ? `engine ${layer.engine}${layer.limit ? `, limited by ${layer.limit}` : ""}` : "",
  ];
}
