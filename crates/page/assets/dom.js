// Elements, and a table that changes only those cells that differ.
export function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value == null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name === "cls" ? "class" : name, value === true ? "" : value);
  }
  element.append(...children.filter(child => child != null));
  return element;
}

export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

// Makes `parent` have exactly these children, and moves only those that are out of place: one that
// has the focus keeps it.
export function arrange(parent, wanted) {
  const keep = new Set(wanted);
  for (const child of [...parent.children]) if (!keep.has(child)) child.remove();
  let place = parent.firstElementChild;
  for (const child of wanted) {
    if (child === place) place = place.nextElementSibling;
    else {
      const focused = child.contains(document.activeElement) ? document.activeElement : null;
      parent.insertBefore(child, place);
      if (focused) focused.focus({ preventScroll: true });
    }
  }
}

// Rows that are shown until all are asked for.
const FEW = 100;

// A table that is searched and sorted. A column has `label`, `text(row)`, and, to be sorted by,
// `value(row)`; `link(row)` and `cls(row)` if it has any.
export class Table {
  constructor(caption, columns, { key, sort = 0, falling = false, search = null, none = "There is none." }) {
    Object.assign(this, { columns, key, none, sort, falling, rows: [], shown: new Map(), all: false, words: "" });
    this.heads = columns.map((column, i) => {
      const head = make("th", { scope: "col", title: column.title });
      if (!column.value) { head.append(column.label); return head; }
      head.append(make("button", { type: "button", onclick: () => this.sortBy(i) }, column.label));
      return head;
    });
    this.body = make("tbody");
    this.element = make("table", {}, make("caption", { cls: "hidden" }, caption), make("thead", {}, make("tr", {}, ...this.heads)), this.body);
    this.more = make("button", { type: "button", hidden: true, onclick: () => { this.all = true; this.draw(); } });
    this.found = make("span", { role: "status", cls: "soft" });
    const field = make("input", { type: "search", placeholder: "Search", "aria-label": "Search: " + caption, oninput: event => { this.words = event.target.value.trim().toLowerCase(); this.draw(); } });
    this.tools = make("div", { cls: "tools" }, search ? field : null, this.found);
    this.search = search;
    this.whole = make("div", {}, search ? this.tools : null, make("div", { cls: "scroll", tabindex: "0", role: "region", "aria-label": caption }, this.element), this.more);
  }

  sortBy(i) {
    // Figures begin with the largest, words with the first.
    this.falling = this.sort === i ? !this.falling : !this.columns[i].isWord;
    this.sort = i;
    this.draw();
  }

  update(rows) { this.rows = rows; this.draw(); }

  ordered() {
    const rows = this.words && this.search ? this.rows.filter(row => this.search(row).toLowerCase().includes(this.words)) : [...this.rows];
    const value = this.columns[this.sort].value, sign = this.falling ? -1 : 1;
    if (!value) return rows;
    const of = new Map(rows.map(row => [row, value(row)]));
    // Unknown figures come last.
    return rows.sort((a, b) => {
      const x = of.get(a), y = of.get(b);
      if (x == null || y == null) return (x == null) - (y == null);
      return sign * (typeof x === "string" ? x.localeCompare(y, undefined, { numeric: true }) : x - y);
    });
  }

  draw() {
    const ordered = this.ordered(), some = this.all ? ordered : ordered.slice(0, FEW), kept = new Map();
    this.heads.forEach((head, i) => {
      const sort = i === this.sort && this.columns[i].value ? (this.falling ? "descending" : "ascending") : null;
      if (sort) head.setAttribute("aria-sort", sort); else head.removeAttribute("aria-sort");
    });
    const lines = some.map(row => {
      const key = this.key(row), line = this.shown.get(key) || this.line();
      kept.set(key, line);
      this.fill(line, row);
      return line.element;
    });
    this.shown = kept;
    if (!lines.length) lines.push(this.nothing ||= make("tr", {}, make("td", { colspan: this.columns.length }, this.none)));
    arrange(this.body, lines);
    this.more.hidden = some.length === ordered.length;
    if (!this.more.hidden) setText(this.more, "Show all " + ordered.length);
    setText(this.found, this.words ? ordered.length + " of " + this.rows.length : String(this.rows.length));
  }

  line() {
    const cells = this.columns.map((column, i) => make(i === 0 ? "th" : "td", i === 0 ? { scope: "row" } : {}));
    return { element: make("tr", {}, ...cells), cells, links: [] };
  }

  fill(line, row) {
    this.columns.forEach((column, i) => {
      const cell = line.cells[i], text = column.text(row), cls = column.cls ? column.cls(row) || "" : "";
      if (cell.className !== cls) cell.className = cls;
      if (!column.link) { setText(cell, text); return; }
      let link = line.links[i];
      if (!link) { link = line.links[i] = make("a"); cell.append(link); }
      const target = column.link(row);
      if (link.getAttribute("href") !== target) link.setAttribute("href", target);
      setText(link, text);
    });
  }
}

// A table of a body, as a region that can be scrolled.
function framed(caption, heads, body) {
  const top = heads.map(head => make("th", { scope: "col" }, head));
  const table = make("table", {}, make("caption", { cls: "hidden" }, caption), make("thead", {}, make("tr", {}, ...top)), body);
  return make("div", { cls: "scroll", tabindex: "0", role: "region", "aria-label": caption }, table);
}

// A table without order or search whose rows stay as long as their keys do: what has the focus, or
// was scrolled, stays so as figures change.
export class PlainTable {
  constructor(caption, heads) {
    this.shown = new Map();
    this.body = make("tbody");
    this.whole = framed(caption, heads, this.body);
  }

  // Shows rows of `key`, `cells` and perhaps `cls`; a cell is a text, or `text` and `cls`.
  update(rows) {
    const kept = new Map(), times = new Map();
    const lines = rows.map(({ key, cells, cls = "" }) => {
      // Rows of one key are told apart by their order.
      const time = times.get(key) || 0, name = time + " " + key;
      times.set(key, time + 1);
      const line = this.shown.get(name) || make("tr", {}, ...cells.map((_, i) => make(i === 0 ? "th" : "td", i === 0 ? { scope: "row" } : {}, make("span"))));
      kept.set(name, line);
      if (line.className !== cls) line.className = cls;
      cells.forEach((cell, i) => {
        const span = line.children[i].firstChild, cls = cell.cls || "";
        if (span.className !== cls) span.className = cls;
        setText(span, String(cell.text ?? cell));
      });
      return line;
    });
    this.shown = kept;
    arrange(this.body, lines);
  }
}

// A table that is shown once, without order or search, of cells that are text or elements.
export function plainTable(caption, heads, rows) {
  const body = rows.map(cells => make("tr", {}, ...cells.map((cell, i) => make(i === 0 ? "th" : "td", i === 0 ? { scope: "row" } : {}, cell))));
  return framed(caption, heads, make("tbody", {}, ...body));
}
