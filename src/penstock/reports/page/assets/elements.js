// Elements, texts and the tooltip. Names of a model become text nodes, never markup.

/** Return an HTML element. Attributes whose names begin with "on" are event listeners. */
function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.flat().filter((child) => child !== undefined && child !== null && child !== ""));
  return made;
}

const measuring = document.createElement("canvas").getContext("2d");
const widths = new Map();

/** Return the width in pixels of a text of a figure. */
function textWidth(text) {
  if (!widths.has(text)) {
    measuring.font = '11px system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif';
    widths.set(text, measuring.measureText(text).width);
  }
  return widths.get(text);
}

/** Return the text, or the longest beginning of it that fits, followed by an ellipsis; "" if nothing fits. */
function fitted(text, room) {
  if (textWidth(text) <= room) return text;
  let length = Math.min(text.length, Math.floor(room / 4));
  while (length > 2 && textWidth(`${text.slice(0, length)}…`) > room) length -= 1;
  return length > 2 ? `${text.slice(0, length)}…` : "";
}

/** Return the text, without as much of its middle as does not fit: both ends tell names apart; "" without room. */
function cutInMiddle(text, room) {
  if (textWidth(text) <= room) return text;
  for (let kept = Math.min(text.length - 1, Math.floor(room / 3)); kept >= 6; kept -= 1) {
    const end = Math.ceil(kept / 2);
    const cut = `${text.slice(0, kept - end)}…${text.slice(-end)}`;
    if (textWidth(cut) <= room) return cut;
  }
  return "";
}

/** Return the text, without its middle if it is very long. */
function shortened(text) {
  return text.length <= 120 ? text : `${text.slice(0, 60)} … ${text.slice(-55)}`;
}

/** Show lines of text beside a pointer event or an element; the first line is bold. */
function showTip(lines, at) {
  const tip = document.getElementById("tip");
  const [first, ...others] = lines.filter((line) => line);
  tip.replaceChildren(element("b", {}, first), ...others.map((line) => element("div", {}, line)));
  tip.hidden = false;
  let x = at.clientX;
  let y = at.clientY;
  if (x === undefined) {
    const box = at.getBoundingClientRect();
    x = Math.min(box.left + 40, innerWidth - 60);
    y = box.bottom - 6;
  }
  const { offsetWidth, offsetHeight } = tip;
  const left = x + 16 + offsetWidth > innerWidth ? x - 16 - offsetWidth : x + 16;
  const top = y + 16 + offsetHeight > innerHeight ? y - 16 - offsetHeight : y + 16;
  tip.style.left = `${Math.max(4, Math.min(left, innerWidth - offsetWidth - 4))}px`;
  tip.style.top = `${Math.max(4, top)}px`;
}

function hideTip() {
  document.getElementById("tip").hidden = true;
}

/** Announce a text, also to screen readers, for a few seconds. */
function announce(text) {
  const status = document.getElementById("status");
  status.textContent = text;
  clearTimeout(announce.timer);
  announce.timer = setTimeout(() => {
    status.textContent = "";
  }, 4000);
}

/** Copy a text to the clipboard; where that is not permitted, select it in a prompt. */
async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const area = element("textarea", { "aria-hidden": "true", style: "position:fixed;opacity:0" });
    area.value = text;
    document.body.append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    if (!done) {
      announce(`Copying is not permitted here: ${text}`);
      return;
    }
  }
  announce(`Copied: ${text}`);
}

/** Return a button that copies a command. */
function copyButton(command) {
  return element(
    "button",
    {
      type: "button",
      class: "copy",
      title: command,
      "aria-label": `Copy: ${command}`,
      onclick: (event) => {
        event.stopPropagation();
        copyText(command);
      },
    },
    "copy",
  );
}

/** Return a name that loses its middle where there is no room: its last letters remain. */
function nameElement(name) {
  const letters = [...name];
  const end = letters.length > 12 ? 8 : letters.length > 8 ? 4 : 0;
  return element(
    "bdi",
    { class: "cut", dir: "ltr", title: name },
    element("span", {}, letters.slice(0, letters.length - end).join("")),
    end ? element("span", { class: "end" }, letters.slice(-end).join("")) : "",
  );
}

/** Return a section with a heading, and register it for the navigation. */
function section(id, heading, size, controls, ...children) {
  return element(
    "section",
    { id, class: size, "aria-labelledby": `${id}-heading` },
    element("div", { class: "head" }, element("h2", { id: `${id}-heading` }, heading), controls),
    ...children,
  );
}

/** Call `draw(width)` now and whenever the width of an element changes. */
function drawnAtWidth(host, draw) {
  let last = 0;
  new ResizeObserver(() => {
    const width = Math.floor(host.clientWidth);
    if (width && width !== last) {
      last = width;
      draw(width);
      forgetReplaced();
    }
  }).observe(host);
}

/** Let arrow keys, Home and End move the focus among the elements that match a selector. */
function arrowKeys(host, selector) {
  host.addEventListener("keydown", (event) => {
    const some = [...host.querySelectorAll(selector)];
    const at = some.indexOf(event.target);
    const next = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: some.length - 1 }[event.key];
    if (at < 0 || !some[next]) return;
    event.preventDefault();
    event.target.tabIndex = -1;
    some[next].tabIndex = 0;
    some[next].focus();
  });
}
