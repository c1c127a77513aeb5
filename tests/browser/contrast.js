// The contrast of text and ground by WCAG 2.1, and the relative luminance of the ground.
const luminance = (color) => {
  const parts = color.match(/[\d.]+/g).map((part) => part / 255);
  const [r, g, b] = parts.map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const style = getComputedStyle(document.body);
const [text, ground] = [style.color, style.backgroundColor].map(luminance);
return [(Math.max(text, ground) + 0.05) / (Math.min(text, ground) + 0.05), ground];
