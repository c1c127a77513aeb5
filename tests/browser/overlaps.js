// Pairs of texts of a figure whose boxes overlap. The box of a line of text includes the space between
// lines, of which neighbours may share up to 3 pixels.
return [...document.querySelectorAll("svg")].flatMap((svg) => {
  const shown = [...svg.querySelectorAll("text")]
    .filter((text) => text.textContent && getComputedStyle(text).visibility === "visible")
    .map((text) => ({ words: text.textContent, box: text.getBoundingClientRect() }))
    .filter(({ box }) => box.width);
  const overlap = (a, b) =>
    Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1 &&
    Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 3;
  return shown.flatMap((a, k) =>
    shown
      .slice(k + 1)
      .filter((b) => overlap(a.box, b.box))
      .map((b) => [a.words, b.words]),
  );
});
