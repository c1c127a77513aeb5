// The number of pairs of boxes of a drawn graph that overlap.
const boxes = [...document.querySelectorAll(".layer-box")].map((box) => box.getBoundingClientRect());
const overlap = (a, b) =>
  Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1 && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 1;
return boxes.flatMap((a, k) => boxes.slice(k + 1).filter((b) => overlap(a, b))).length;
