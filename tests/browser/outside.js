// Texts of figures that are cut off at the edge of their figure.
return [...document.querySelectorAll("svg")].flatMap((svg) => {
  const frame = svg.getBoundingClientRect();
  return [...svg.querySelectorAll("text")]
    .filter((text) => text.textContent)
    .map((text) => [text.textContent, text.getBoundingClientRect()])
    .filter(
      ([, box]) =>
        box.width &&
        (box.left < frame.left - 1 || box.right > frame.right + 1 || box.bottom > frame.bottom + 1),
    )
    .map(([words]) => words);
});
