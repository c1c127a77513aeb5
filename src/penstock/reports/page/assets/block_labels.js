// Names inside the blocks of a memory figure.

/* Positions as fractions of the free space in a block, the centre first. */
const LABEL_PLACES = [0.5, 0.25, 0.75, 0, 1]
  .flatMap((fx) => [0.5, 0.2, 0.8, 0, 1].map((fy) => [fx, fy]))
  .sort(([a, b], [c, d]) => Math.abs(a - 0.5) + Math.abs(b - 0.5) - Math.abs(c - 0.5) - Math.abs(d - 0.5));

/** Write short names into blocks that have room for them. Areas of blocks are disjoint, so are labels;
    where there is room beside the curve, which `curveBetween` describes, a label keeps clear of it. */
function drawBlockLabels(labels, blocks, at, y, width, curveBetween) {
  const found = [];
  for (const block of blocks) {
    let best = null;
    for (const [lower, upper, born, dead] of block.areas) {
      const left = Math.max(0, at(born));
      const right = Math.min(width, at(dead));
      const area = Math.max(0, right - left) * (upper - lower);
      if (!best || area > best.area)
        best = { area, left: left + 3, right: right - 3, top: y(upper), bottom: y(lower) };
    }
    const room = { width: best.right - best.left, height: best.bottom - best.top };
    const across = room.height >= 13 ? cutInMiddle(block.name, room.width) : "";
    const along = room.width >= 7 ? cutInMiddle(block.name, room.height - 6) : "";
    const upright = across !== block.name && along.length > across.length;
    const text = upright ? along : across;
    if (!text) continue;
    const half = upright ? { x: 6.5, y: textWidth(text) / 2 + 2 } : { x: textWidth(text) / 2 + 2, y: 6.5 };
    const places = LABEL_PLACES.map(([fx, fy]) => ({
      x: best.left + half.x + fx * Math.max(0, room.width - 2 * half.x),
      y: best.top + half.y + fy * Math.max(0, room.height - 2 * half.y),
    }));
    const clear = places.find((place) => {
      const [high, low] = curveBetween(place.x - half.x, place.x + half.x);
      return low < place.y - half.y || high > place.y + half.y;
    });
    found.push({ ...(clear ?? places[0]), text, angle: upright ? -90 : 0 });
  }
  labels
    .selectAll("text")
    .data(found)
    .join("text")
    .attr("class", "block-label")
    .attr("text-anchor", "middle")
    .attr("dominant-baseline", "central")
    .attr(
      "transform",
      (label) => `translate(${label.x.toFixed(1)},${label.y.toFixed(1)})rotate(${label.angle})`,
    )
    .text((label) => label.text);
}
