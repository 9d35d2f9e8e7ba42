// Memory dragged between pools: sliders whose sum stays, with what is predicted of each pool.
import { make, setText } from "./dom.js";
import { bytes, count, percent, several, signed, span } from "./format.js";
import { divide, predicted } from "./curve.js";
import { poolLink } from "./app.js";

// Rows at once, and steps of a slider.
const FEW = 50, STEPS = 1000;

export class WhatIf {
  constructor(source) {
    Object.assign(this, { source, name: "What if", lines: new Map(), known: [], pools: [], sizes: [], now: [], total: 0, all: false });
    this.node = make("select", { "aria-label": "Machine", hidden: true, onchange: () => this.choose() });
    this.words = make("input", { type: "search", placeholder: "Search", "aria-label": "Search pools", oninput: () => this.draw() });
    this.reset = make("button", { type: "button", onclick: () => this.choose() }, "As it is now");
    this.again = make("button", { type: "button", onclick: () => this.load() }, "Read curves again");
    this.found = make("span", { cls: "soft" });
    this.sum = make("p", { role: "status" });
    this.left = make("p", { cls: "soft" });
    const heads = ["Pool", "Memory", "", "Change", "Hits now", "Hits then", "Hits/s", "Backend requests/s", "Keep"];
    this.body = make("tbody");
    const table = make("table", {}, make("caption", { cls: "hidden" }, "Memory of each pool"), make("thead", {}, make("tr", {}, ...heads.map(head => make("th", { scope: "col" }, head)))), this.body);
    this.more = make("button", { type: "button", hidden: true, onclick: () => { this.all = true; this.draw(); } });
    this.element = make("section", { cls: "card" }, make("h2", {}, "What if memory were divided otherwise?"),
      make("p", { cls: "soft" }, "A slider gives a pool memory of the others, or them memory of it, each as it has; those that you keep stay as they are. Nothing is changed."),
      make("div", { cls: "tools" }, this.node, this.words, this.reset, this.again, this.found), this.sum, make("div", { cls: "scroll" }, table), this.more, this.left);
    this.load();
  }

  update() {}

  repaint() {}

  async load() {
    setText(this.sum, "Reading the curves …");
    try {
      const pools = await this.source.curves();
      if (this.ended) return;
      // Without a curve nothing can be predicted; without a grant, what a pool uses is its own.
      this.known = pools.filter(pool => pool.points && pool.points.length).map(pool => ({ ...pool, used: pool.used ?? 0, granted: pool.granted ?? pool.used ?? 0 }));
      const nodes = [...new Set(this.known.map(pool => pool.node || ""))];
      const kept = this.node.value;
      this.node.replaceChildren(...nodes.map(node => make("option", { value: node }, node || "all")));
      if (nodes.includes(kept)) this.node.value = kept;
      this.node.hidden = nodes.length < 2;
      const left = pools.length - this.known.length;
      setText(this.left, left > 0 ? several(left, "pool") + " whose curve is not known " + (left > 1 ? "keep what they have." : "keeps what it has.") : "");
      this.choose();
    } catch (error) {
      setText(this.sum, error.message);
    }
  }

  choose() {
    this.pools = this.known.filter(pool => (pool.node || "") === (this.node.value || ""));
    this.sizes = this.pools.map(pool => pool.granted);
    this.total = this.sizes.reduce((sum, size) => sum + size, 0);
    this.leasts = this.pools.map((pool, i) => Math.min(pool.floor || 0, this.sizes[i]));
    this.kept = this.pools.map(() => false);
    this.now = this.pools.map(pool => predicted(pool, pool.granted));
    this.lines.clear();
    this.body.replaceChildren();
    this.draw();
  }

  draw() {
    const words = this.words.value.trim().toLowerCase();
    const order = this.pools.map((_, i) => i).filter(i => !words || this.pools[i].name.toLowerCase().includes(words)).sort((a, b) => this.pools[b].granted - this.pools[a].granted);
    const some = this.all ? order : order.slice(0, FEW);
    this.body.replaceChildren(...some.map(i => this.line(i).element));
    this.more.hidden = some.length === order.length;
    if (!this.more.hidden) setText(this.more, "Show all " + order.length);
    setText(this.found, words ? order.length + " of " + this.pools.length : String(this.pools.length));
    this.fill();
  }

  line(i) {
    let line = this.lines.get(i);
    if (line) return line;
    const pool = this.pools[i], most = Math.min(this.total, Math.max(4 * pool.granted, 4 * this.total / this.pools.length, 1));
    const slider = make("input", { type: "range", min: 0, max: STEPS, step: 1, "aria-label": "Memory of " + pool.name, oninput: () => this.move(i, slider.value / STEPS * most) });
    const keep = make("input", { type: "checkbox", "aria-label": "Keep " + pool.name + " as it is", onchange: () => { this.kept[i] = keep.checked; } });
    const cells = Array.from({ length: 6 }, () => make("td"));
    line = { most, slider, cells, element: make("tr", {}, make("th", { scope: "row" }, make("a", { href: poolLink(pool.id || pool.name, pool.node) }, pool.name)), cells[0], make("td", {}, slider), ...cells.slice(1), make("td", {}, keep)) };
    this.lines.set(i, line);
    return line;
  }

  move(i, size) {
    divide(this.sizes, this.leasts, this.kept, i, size, this.total);
    this.fill();
  }

  fill() {
    let saved = 0, before = 0, time = 0, isTimed = false;
    this.pools.forEach((pool, i) => {
      const then = predicted(pool, this.sizes[i]), more = (this.now[i] - then) * (pool.reads || 0);
      saved += more;
      before += this.now[i] * (pool.reads || 0);
      if (pool.missCost != null) { time += more * pool.missCost; isTimed = true; }
      const line = this.lines.get(i);
      if (!line || !line.element.isConnected) return;
      const at = line.most > 0 ? Math.round(STEPS * Math.min(1, this.sizes[i] / line.most)) : 0;
      if (Number(line.slider.value) !== at) line.slider.value = at;
      line.slider.setAttribute("aria-valuetext", bytes(this.sizes[i]) + ", " + percent(1 - then) + " hits");
      const change = this.sizes[i] - pool.granted;
      [bytes(this.sizes[i]), Math.abs(change) < 1024 ? "–" : signed(change, bytes), percent(1 - this.now[i]), percent(1 - then), signed(more, count), count(then * (pool.reads || 0))].forEach((text, cell) => setText(line.cells[cell], text));
      line.cells[4].className = more > 0.05 ? "good" : more < -0.05 ? "bad" : "";
    });
    const few = Math.abs(saved) < 0.05 ? 0 : saved;
    setText(this.sum, !this.pools.length ? "No curve is known yet."
      : bytes(this.total) + " for " + several(this.pools.length, "pool") + ". "
        + (few === 0 ? "As it is now, " + count(before) + " requests a second go to backends."
          : "That " + (few > 0 ? "saves " : "adds ") + count(Math.abs(few)) + (few > 0 ? " of " : " to ") + count(before) + " backend requests a second"
            + (isTimed && time > 0 === few > 0 ? ", and " + span(Math.abs(time)) + " of waiting each second." : ".")));
  }

  end() { this.ended = true; }
}
