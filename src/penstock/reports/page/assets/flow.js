// The drawing of the graph: data flows from top to bottom. The rank of a layer is the length of the longest
// path to it. A line that passes ranks has a place of its own in each of them, so none crosses a box.
const BOX = { width: 148, height: 52, gap: 22, lane: 14 };

/** Return the ranks: arrays of items {layer} or, for a line that passes, {layer: null}, with the items above
    and below. The first rank is the caller, if a layer reads from it. */
function flowRanks(listed) {
  const hasCaller = listed.some(({ index }) => data.layers[index].reads?.includes(-1));
  const rank = new Map([[-1, hasCaller ? 0 : -1]]);
  const known = new Set(listed.map(({ index }) => index));
  const sources = (index) => [...new Set(data.layers[index].reads ?? [])].filter((one) => one < 0 || known.has(one));
  for (const { index } of listed)
    rank.set(index, 1 + Math.max(rank.get(-1), ...sources(index).map((source) => rank.get(source) ?? 0)));
  const ranks = Array.from({ length: 1 + Math.max(...rank.values()) }, () => []);
  const add = (layer, level) => {
    const item = { layer, above: [], below: [], width: layer === null ? BOX.lane : BOX.width };
    ranks[level].push(item);
    return item;
  };
  const items = new Map(hasCaller ? [[-1, add(-1, 0)]] : []);
  const lines = [];
  for (const { index } of listed) {
    const item = add(index, rank.get(index));
    items.set(index, item);
    for (const source of sources(index)) {
      let last = items.get(source);
      if (!last || rank.get(source) >= rank.get(index)) continue; // an output that a later step completes
      const line = { source, reader: index, items: [last] };
      for (let level = rank.get(source) + 1; level <= rank.get(index); level += 1) {
        const next = level === rank.get(index) ? item : add(null, level);
        last.below.push(next);
        next.above.push(last);
        line.items.push(next);
        last = next;
      }
      lines.push(line);
    }
  }
  return { ranks, lines };
}

/** Give every item a place: lines cross seldom, boxes are near the middle of their neighbours. */
function placeItems(ranks) {
  const mean = (some, fallback) => (some.length ? d3.mean(some, (one) => one.x) : fallback);
  ranks.forEach((items, level) =>
    items.forEach((item, place) => Object.assign(item, { x: BOX.width * place, y: level * (BOX.height + BOX.gap) })),
  );
  const sweep = (items, neighbours, reorder) => {
    for (const item of items) item.wanted = mean(neighbours(item), item.x);
    if (reorder) items.sort((a, b) => a.wanted - b.wanted);
    let end = -Infinity;
    for (const item of items) {
      item.x = Math.max(item.wanted, end + item.width / 2);
      end = item.x + item.width / 2 + 10;
    }
    const shift = d3.mean(items, (item) => item.wanted - item.x);
    for (const item of items) item.x += shift;
  };
  for (let round = 0; round < 4; round += 1) {
    for (const items of ranks) sweep(items, (item) => item.above, true);
    for (const items of [...ranks].reverse()) sweep(items, (item) => item.below, true);
  }
  for (let round = 0; round < 6; round += 1)
    for (const items of ranks) sweep(items, (item) => [...item.above, ...item.below], false);
}

/** Return the drawing as an element. */
function flowDrawing(listed) {
  const { ranks, lines } = flowRanks(listed);
  placeItems(ranks);
  const all = ranks.flat();
  const left = d3.min(all, (item) => item.x - item.width / 2) - 8;
  const right = d3.max(all, (item) => item.x + item.width / 2) + 8;
  const bottom = d3.max(all, (item) => item.y) + BOX.height + 8;
  const svg = d3
    .create("svg")
    .attr("width", right - left)
    .attr("height", bottom + 8)
    .attr("viewBox", [left, -8, right - left, bottom + 8])
    .attr("role", "group")
    .attr("aria-label", "Graph. Arrow keys follow the lines.");
  for (const line of lines) {
    const path = line.items
      .map((item, k) => {
        const top = item.layer === null || k ? item.y : item.y + BOX.height;
        const through = item.layer === null ? `V${item.y + BOX.height}` : "";
        if (!k) return `M${item.x.toFixed(1)} ${top}`;
        const before = line.items[k - 1];
        const from = before.y + BOX.height;
        const middle = (from + top) / 2;
        return `C${before.x.toFixed(1)} ${middle} ${item.x.toFixed(1)} ${middle} ${item.x.toFixed(1)} ${top}${through}`;
      })
      .join("");
    const edge = svg.append("path").attr("class", "edge").attr("d", path).node();
    showsLayers(edge, line.source < 0 ? [line.reader] : [line.source, line.reader], false);
  }
  const largest = Math.max(1e-9, ...data.layers.map((layer) => (layer.simulated_cycles ?? layer.cycles) / totals.cycles));
  const boxes = new Map();
  for (const item of all) if (item.layer !== null) boxes.set(item.layer, { item, node: flowBox(svg, item, largest) });
  walkFlow(svg.node(), boxes, ranks);
  return element("div", { class: "flow" }, svg.node());
}

function flowBox(svg, item, largest) {
  const box = svg.append("g").attr("transform", `translate(${(item.x - BOX.width / 2).toFixed(1)},${item.y})`);
  const rect = box.append("rect").attr("width", BOX.width).attr("height", BOX.height).attr("rx", 5);
  const text = (words, y, kind) =>
    box.append("text").attr("x", 8).attr("y", y).attr("class", kind).text(cutInMiddle(words, BOX.width - 18));
  if (item.layer < 0) {
    box.attr("class", "layer-box caller");
    text("input of the network", 30, "operator");
    return box.node();
  }
  const layer = data.layers[item.layer];
  const share = (layer.simulated_cycles ?? layer.cycles) / totals.cycles;
  box.attr("class", `layer-box${layer.cascade === undefined ? "" : " in-cascade"}`).attr("tabindex", -1);
  if (layer.offloaded) rect.attr("style", `stroke:${engineColor(layer.engine)};stroke-width:2`);
  text(layer.kind, 14, "operator");
  text(layer.name, 28, "");
  text(`${layer.shape} · ${percent(share)}`, 42, "muted");
  box
    .append("rect")
    .attr("class", "heat")
    .attr("x", 1)
    .attr("y", BOX.height - 5)
    .attr("height", 4)
    .attr("width", ((BOX.width - 2) * share) / largest);
  const node = box.node();
  showsLayers(node, [item.layer]);
  highlights(
    node,
    () => item.layer,
    () => layerLines(item.layer),
  );
  highlightsOnFocus(node, item.layer, () => layerLines(item.layer));
  return node;
}

/** Let arrow keys move the focus: up to the first layer that a box reads, down to its first reader, left and
    right within its rank. */
function walkFlow(svg, boxes, ranks) {
  const [first] = [...boxes.keys()].filter((layer) => layer >= 0);
  boxes.get(first)?.node.setAttribute("tabindex", 0);
  const layersAt = new Map(ranks.flatMap((items) => items.map((item) => [item, items.filter((one) => one.layer !== null)])));
  svg.addEventListener("keydown", (event) => {
    const at = [...boxes.values()].find(({ node }) => node === event.target);
    if (!at) return;
    const beside = layersAt.get(at.item);
    const place = beside.indexOf(at.item);
    const next = {
      ArrowUp: () => (data.layers[at.item.layer].reads ?? []).find((layer) => layer >= 0),
      ArrowDown: () => readersOf(at.item.layer)[0],
      ArrowLeft: () => beside[place - 1]?.layer,
      ArrowRight: () => beside[place + 1]?.layer,
    }[event.key];
    if (!next) return;
    event.preventDefault();
    const to = boxes.get(next());
    if (!to || to.item.layer < 0) return;
    at.node.setAttribute("tabindex", -1);
    to.node.setAttribute("tabindex", 0);
    to.node.focus();
  });
}
