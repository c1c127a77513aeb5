// Tables that sort and filter. A column states how a row appears in it:
//   key, label, title    for filters, the heading, its tooltip
//   value(row)           number or text to sort by; undefined sorts last
//   show(row)            text or element; the value by default
//   total(rows)          the cell of the last line, if there is one
//   kind                 "n" for numbers, "name" for names, "long", "nowrap"
//   views                names of the views that show it; every view if absent

/** Return a table in a box that scrolls, and its controls: a filter if `filtered`, and
    buttons that select one of `views`, the last of which shows all columns. `parts(row)` returns rows
    that a button in the first cell shows below a row. */
function sortedTable({
  caption,
  columns,
  rows,
  filtered = false,
  views: offered = [],
  decorate = () => {},
  parts = () => [],
  totals: hasTotals = false,
}) {
  const state = { view: offered[0], key: null, descending: false, terms: [] };
  const body = element("tbody");
  const foot = element("tfoot");
  const count = element("span", { class: "muted count", "aria-live": "polite" });
  const headings = columns.map((column) =>
    element(
      "th",
      { scope: "col", class: column.kind === "n" ? "n" : undefined, title: column.title },
      element("button", { type: "button", onclick: () => sortBy(column) }, column.label),
    ),
  );
  const open = new Set();
  const parted = new Map(
    rows.map((row) => [row, parts(row).map((one) => element("tr", { class: "part" }, cells(one)))]),
  );
  const lines = new Map(rows.map((row, index) => [row, line(row, index)]));

  function line(row, index) {
    const made = element("tr", {}, cells(row));
    const some = parted.get(row);
    if (some.length) made.firstChild.append(expander(row, some.length));
    decorate(made, row, index);
    return made;
  }

  /** Return the button that shows and hides the parts of a row. */
  function expander(row, count) {
    const label = `${number(count)} steps of ${columns[0].value(row)}`;
    const button = element(
      "button",
      {
        type: "button",
        class: "expander",
        "aria-expanded": "false",
        "aria-label": label,
        title: `Computed in ${number(count)} steps, such as bands of columns`,
        onclick: (event) => {
          event.stopPropagation();
          if (!open.delete(row)) open.add(row);
          button.setAttribute("aria-expanded", String(open.has(row)));
          refresh();
        },
      },
      "",
    );
    return button;
  }

  function cells(row) {
    return columns.map((column, place) => {
      const plain = column.value(row) ?? ABSENT;
      const shown = column.show ? column.show(row) : column.kind === "name" ? nameElement(plain) : plain;
      const title = column.kind === "name" ? (column.full ?? column.value)(row) : undefined;
      return element(
        place ? "td" : "th",
        { scope: place ? undefined : "row", class: column.kind, title },
        shown,
      );
    });
  }

  const isShown = (column) => !column.views || state.view === offered.at(-1) || column.views.includes(state.view);

  /** Show the columns of the view. */
  function showView() {
    const hidden = columns.map((column) => !isShown(column));
    const every = [...lines.values(), ...[...parted.values()].flat(), headings[0]?.parentElement, ...foot.children];
    for (const one of every) [...(one?.children ?? [])].forEach((cell, place) => (cell.hidden = hidden[place]));
  }

  function sortBy(column) {
    // Numbers begin with the largest, text with the first; a third activation restores the order.
    const first = column.kind === "n";
    if (state.key !== column.key) Object.assign(state, { key: column.key, descending: first });
    else if (state.descending === first) state.descending = !first;
    else state.key = null;
    refresh();
  }

  function matches(row) {
    return state.terms.every(({ column, test, text }) =>
      column
        ? test(column.value(row))
        : columns.some((one) =>
            String((one.full ?? one.value)(row) ?? "")
              .toLowerCase()
              .includes(text),
          ),
    );
  }

  function shownRows() {
    const kept = rows.filter(matches);
    const column = columns.find((one) => one.key === state.key);
    if (!column) return kept;
    const sign = state.descending ? -1 : 1;
    const keyed = kept.map((row, index) => [column.value(row), index, row]);
    keyed.sort(([a, i], [b, j]) => {
      if (a === undefined || b === undefined) return (a === undefined) - (b === undefined) || i - j;
      if (typeof a === "string") return sign * a.localeCompare(b, "en", { numeric: true }) || i - j;
      return sign * (a - b) || i - j;
    });
    return keyed.map(([, , row]) => row);
  }

  function refresh() {
    const shown = shownRows();
    body.replaceChildren(
      ...shown.flatMap((row) => [lines.get(row), ...(open.has(row) ? parted.get(row) : [])]),
    );
    columns.forEach((column, place) =>
      headings[place].setAttribute(
        "aria-sort",
        state.key !== column.key ? "none" : state.descending ? "descending" : "ascending",
      ),
    );
    count.textContent =
      shown.length === rows.length
        ? `${number(rows.length)} rows`
        : `${number(shown.length)} of ${number(rows.length)} rows`;
    if (hasTotals) {
      foot.replaceChildren(
        element(
          "tr",
          {},
          columns.map((column, place) =>
            element(
              place ? "td" : "th",
              { class: column.kind === "n" ? "n" : undefined, scope: place ? undefined : "row" },
              column.total ? column.total(shown) : "",
            ),
          ),
        ),
      );
    }
    if (offered.length) showView();
    const focusable = shown.map((row) => lines.get(row));
    for (const one of lines.values())
      if (one.hasAttribute("tabindex")) one.tabIndex = one === focusable[0] ? 0 : -1;
  }

  const input = element("input", {
    type: "search",
    placeholder: "filter: text, or cycles>10000",
    "aria-label": `Filter ${caption}`,
    title: `Words that a row contains, or comparisons such as cycles>10000 with: ${columns.map((column) => column.key).join(", ")}`,
    oninput: () => {
      state.terms = filterTerms(input.value, columns);
      refresh();
    },
  });
  arrowKeys(body, "tr[tabindex]");
  const box = element(
    "div",
    { class: "box", tabindex: "0", role: "region", "aria-label": caption },
    element(
      "table",
      { "aria-label": caption, class: [...parted.values()].some((some) => some.length) ? "parted" : undefined },
      element("thead", {}, element("tr", {}, headings)),
      body,
      hasTotals ? foot : "",
    ),
  );
  refresh();
  const select = offered.length
    ? element(
        "span",
        { class: "group", role: "group", "aria-label": "Columns" },
        offered.map((view) =>
          element(
            "button",
            {
              type: "button",
              "aria-pressed": String(view === state.view),
              onclick: (event) => {
                state.view = view;
                for (const one of event.target.parentElement.children)
                  one.setAttribute("aria-pressed", String(one === event.target));
                showView();
              },
            },
            view,
          ),
        ),
      )
    : "";
  const controls = filtered || offered.length ? element("div", { class: "controls" }, select, filtered ? [count, input] : "") : "";
  return { box: scrollFrame(box, rows.length), controls };
}

/** Return the terms of a filter: words, and comparisons with a column. */
function filterTerms(text, columns) {
  return text
    .toLowerCase()
    .split(/\s+/)
    .filter(Boolean)
    .map((term) => {
      const [, key, sign, operand] = /^([\w./]+)(<=|>=|=|<|>)(.+)$/.exec(term) ?? [];
      const column = columns.find((one) => one.key.toLowerCase() === key);
      if (!column) return { text: term };
      const limit = Number(operand.replaceAll(",", ""));
      const compare = {
        "<": (value) => value < limit,
        ">": (value) => value > limit,
        "<=": (value) => value <= limit,
        ">=": (value) => value >= limit,
        "=": (value) => String(value ?? "").toLowerCase() === operand || value === limit,
      }[sign];
      return { column, test: compare };
    });
}

/** Return a table of names and values without a heading. */
function plainTable(caption, rows) {
  return element(
    "div",
    { class: "box" },
    element(
      "table",
      { class: "plain", "aria-label": caption },
      element(
        "tbody",
        {},
        rows.map(({ cells, kind }) =>
          element(
            "tr",
            { class: kind },
            cells.map((cell, place) =>
              element(
                place ? "td" : "th",
                { scope: place ? undefined : "row", class: typeof cell === "number" ? "n" : undefined },
                typeof cell === "number" ? number(cell) : cell,
              ),
            ),
          ),
        ),
      ),
    ),
  );
}
