// The page: reads the data and puts the sections together.
const data = JSON.parse(document.getElementById("data").textContent);
let tick = 1;
const stretches = (data.stretches ?? []).map((stretch) => {
  const found = { ...stretch, tick };
  tick += stretch.calls;
  return found;
});
const totals = {
  cycles: Math.max(
    1,
    (data.layers ?? []).reduce((sum, layer) => sum + (layer.simulated_cycles ?? layer.cycles), 0),
  ),
  engines: new Set((data.layers ?? []).map((layer) => layer.engine)).size,
  accelerators: [
    ...new Set((data.layers ?? []).filter((layer) => layer.offloaded).map((layer) => layer.engine)),
  ].sort(),
};

function themeButton() {
  const order = ["auto", "light", "dark"];
  const button = element(
    "button",
    {
      type: "button",
      id: "theme",
      onclick: () => {
        const next = order[(order.indexOf(button.dataset.theme) + 1) % 3];
        button.dataset.theme = next;
        button.textContent = `theme: ${next}`;
        if (next === "auto") delete document.documentElement.dataset.theme;
        else document.documentElement.dataset.theme = next;
      },
    },
    "theme: auto",
  );
  button.dataset.theme = "auto";
  return button;
}

function pageHeader() {
  return element(
    "header",
    { class: "top" },
    element("h1", {}, data.title),
    element("div", { class: "muted" }, data.subtitle),
    element(
      "ul",
      { class: "provenance" },
      (data.provenance ?? []).map((words) => element("li", {}, words)),
    ),
    data.warning ? element("p", { class: "warning" }, data.warning) : "",
    element(
      "ul",
      { class: "figures" },
      (data.figures ?? []).map((figure) =>
        element(
          "li",
          {},
          figure.label,
          element("b", {}, figure.value, " ", element("small", {}, figure.unit)),
          element("span", { class: "muted" }, (figure.notes ?? []).join(" · ")),
        ),
      ),
    ),
    element("div", { class: "command" }, element("code", {}, data.command), copyButton(data.command)),
  );
}

function ramSection() {
  if (!data.ram) return "";
  const rows = data.ram.map((part) => ({
    cells: [
      part.name,
      part.size_bytes,
      element("span", { class: "nowrap" }, kib(part.size_bytes)),
      part.note,
    ],
    kind: part.name === "total" ? "total" : undefined,
  }));
  return section(
    "ram",
    "RAM",
    "half",
    "",
    plainTable("RAM", rows),
    ...(data.ram_notes ?? []).map((note) => element("p", { class: "note" }, note)),
  );
}

function optionSection() {
  if (!data.others) return "";
  return section(
    "options",
    "Other options",
    "",
    "",
    plainTable(
      "Other options",
      data.others.map((other) => ({
        cells: [other.words, element("code", {}, other.command), copyButton(other.command)],
      })),
    ),
  );
}

function statementSection() {
  if (!data.statements) return "";
  return section(
    "certificates",
    "Certificates and verification",
    "half",
    "",
    plainTable(
      "Certificates and verification",
      data.statements.map((one) => ({
        cells: [one.subject, one.words],
        kind: one.failed ? "failed" : undefined,
      })),
    ),
  );
}

const [firstMemory, ...otherMemories] = memorySections();
const main = element(
  "main",
  {},
  firstMemory,
  graphSection(),
  ...otherMemories,
  ...engineSections(),
  ...(data.layers ? [] : frontierSections()),
  layerSection(),
  resourceSection(),
  ...(data.layers ? frontierSections() : []),
  ramSection(),
  statementSection(),
  optionSection(),
  data.layers
    ? ""
    : section(
        "notes",
        "Notes",
        "",
        "",
        ...(data.notes ?? []).map((note) => element("p", { class: "note" }, note)),
      ),
);
const headings = {
  memory: "Memory",
  graph: "Graph",
  timeline: "Timeline",
  engines: "Engines",
  layers: "Layers",
  resources: "Resources",
  frontier: "Frontier",
  ram: "RAM",
  certificates: "Certificates",
  options: "Options",
};
document.getElementById("page").append(
  pageHeader(),
  element(
    "nav",
    { "aria-label": "Sections" },
    Object.entries(headings)
      .filter(([id]) => main.querySelector(`#${id}`))
      .map(([id, words]) => element("a", { href: `#${id}` }, words)),
    element("span", { class: "push" }),
    themeButton(),
  ),
  main,
  detail,
);
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") release();
});
document.documentElement.dataset.drawn = "yes";
