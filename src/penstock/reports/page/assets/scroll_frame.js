// A frame around a box that scrolls: shades where there is more, and a button that shows all rows.
const MOST_ROWS = 40; // a list of more rows scrolls until it is shown whole

/** Return a frame around `box`, which has `count` rows that are called `noun`. */
function scrollFrame(box, count, noun = "rows", most = MOST_ROWS) {
  const frame = element("div", { class: "frame" }, box);
  const sideways = element("span", { class: "sideways", hidden: true }, "scroll sideways for more columns →");
  const whole = element(
    "button",
    {
      type: "button",
      class: "whole-button",
      hidden: true,
      "aria-expanded": "false",
      onclick: () => {
        const is = box.classList.toggle("whole");
        whole.setAttribute("aria-expanded", String(is));
        label(is);
        measure();
      },
    },
    "",
  );
  const label = (is) => {
    whole.textContent = is ? `show fewer ${noun}` : `show all ${number(count)} ${noun}`;
  };
  label(false);
  if (count <= most) box.classList.add("whole");

  function measure() {
    const right = box.scrollWidth - box.clientWidth - box.scrollLeft > 4;
    const tall = box.scrollHeight - box.clientHeight > 4;
    frame.classList.toggle("more-right", right);
    frame.classList.toggle("more-below", tall && box.scrollHeight - box.clientHeight - box.scrollTop > 4);
    sideways.hidden = box.scrollWidth - box.clientWidth <= 4;
    whole.hidden = !tall && !(box.classList.contains("whole") && count > most);
  }
  box.addEventListener("scroll", measure, { passive: true });
  const observer = new ResizeObserver(measure);
  observer.observe(box);
  for (const child of box.children) observer.observe(child);
  return element("div", { class: "framed" }, frame, element("div", { class: "below muted" }, whole, sideways));
}
