// All tenants at a glance: headline figures, memory, what moved lately, and a table.
import { make, setText, arrange, Table, PlainTable } from "./dom.js";
import { bytes, count, percent, ago, clock } from "./format.js";
import { sparkline, drawLine } from "./charts.js";
import { outcomeWords, moveWords, saving, saved } from "./decisions.js";

const COLOURS = ["#1f6f9f", "#5aa9c7", "#c26a1b", "#8a6fb0", "#4f9a6a", "#b8577a", "#9a8f3c", "#777777"];
// Values of a headline figure that are drawn, and parts of memory that are named.
const PAST = 90, PARTS = 24;
// What moved in this time is summed up.
const LATELY_SECS = 600;
const past = new Map();

export class Overview {
  constructor(source) {
    this.name = "Overview";
    this.cards = make("div", { cls: "cards" });
    this.shown = new Map();
    this.memory = make("div");
    this.lately = make("section", { cls: "card" }, make("h2", {}, "Memory moved in the last ten minutes"));
    this.sum = make("p");
    this.moves = make("ol", { cls: "timeline" });
    this.lately.append(this.sum, this.moves, make("a", { href: "#/decisions" }, "All decisions"));
    this.table = new Table(source.rowsName, source.columns, { key: row => row.key ?? row.id, search: row => row.id + " " + (row.group || ""), none: source.noRows });
    this.element = make("div", {}, this.cards, this.memory, this.lately, make("section", { cls: "card" }, make("h2", {}, source.rowsName), this.table.whole));
  }

  update(model) {
    this.drawCards(model.cards);
    arrange(this.memory, model.nodes.map(node => this.node(node)));
    this.drawLately(model);
    this.table.update(model.rows);
  }

  drawCards(cards) {
    for (const { name, value, text } of cards) {
      const series = past.get(name) || [];
      series.push(value);
      past.set(name, series.slice(-PAST));
      let card = this.shown.get(name);
      if (!card) {
        card = { figure: make("div", { cls: "big" }), line: sparkline(series, PAST) };
        this.shown.set(name, card);
        this.cards.append(make("div", { cls: "card" }, make("h2", {}, name), card.figure, card.line));
      }
      setText(card.figure, text);
      drawLine(card.line, past.get(name), PAST);
    }
  }

  // Elements of a machine, made once and changed after, so that focus and scrolling stay.
  node(node) {
    const at = "node " + node.name;
    let shown = this.shown.get(at);
    if (!shown) {
      shown = { head: make("h2"), bar: make("div", { cls: "bar", "aria-hidden": "true" }), legend: make("div", { cls: "legend" }), unmet: make("div") };
      if (node.instances) shown.instances = new PlainTable("Instances of " + node.name, ["Instance", "Kind", "Limit", "Used", "Decided", "Agent"]);
      shown.element = make("section", { cls: "card" }, shown.head, shown.bar, shown.legend, shown.unmet, shown.instances && shown.instances.whole);
      this.shown.set(at, shown);
    }
    setText(shown.head, node.name + ": " + bytes(node.used) + " of " + bytes(node.total) + (node.note ? " · " + node.note : ""));
    const parts = node.parts.slice(0, PARTS);
    arrange(shown.bar, parts.map((part, i) => {
      const piece = shown.bar.children[i] || make("i");
      piece.style.width = 100 * part.bytes / Math.max(node.total, 1) + "%";
      piece.style.background = COLOURS[i % COLOURS.length];
      return piece;
    }));
    arrange(shown.legend, parts.map((part, i) => {
      const entry = shown.legend.children[i] || make("span", {}, make("i"), make("span"));
      entry.firstChild.style.background = COLOURS[i % COLOURS.length];
      setText(entry.lastChild, part.name + " " + bytes(part.bytes));
      return entry;
    }));
    arrange(shown.unmet, node.unmet.map((words, i) => {
      const line = shown.unmet.children[i] || make("p", { cls: "bad" });
      setText(line, "Not kept: " + words);
      return line;
    }));
    if (node.instances) shown.instances.update(node.instances.map(one => ({ key: one.name, cells: [one.name, one.kind, bytes(one.limit), bytes(one.used), bytes(one.target), { text: one.state, cls: one.isBad ? "bad" : "" }] })));
    return shown.element;
  }

  drawLately(model) {
    const from = Date.now() / 1000 - LATELY_SECS, late = model.decisions.filter(decision => decision.at >= from);
    const made = late.filter(one => !one.dryRun), dry = late.length - made.length;
    const moved = made.reduce((sum, decision) => sum + decision.movedBytes, 0), measured = made.filter(one => one.measured != null), total = key => measured.reduce((sum, one) => sum + one[key], 0);
    const words = !made.length ? (dry ? "Nothing was moved, as " + (dry === 1 ? "the decision was a dry run." : count(dry) + " decisions were dry runs.") : model.policy.idle)
      : count(made.length) + (made.length === 1 ? " decision moved " : " decisions moved ") + bytes(moved) + ". "
        + (measured.length ? "Of " + measured.length + " the outcome is known: predicted " + saving(total("predicted")) + "; as measured, they " + saved(total("measured")) + "." : "The outcome of none is known yet.");
    setText(this.sum, model.policy.text + ". " + words
      + (model.policy.error == null ? "" : " Predicted miss ratios were off by " + (100 * model.policy.error).toFixed(1) + " points on average."));
    arrange(this.moves, late.slice(0, 4).map(decision => {
      const key = "decision" + decision.number + "@" + decision.at;
      let shown = this.shown.get(key);
      if (!shown) {
        const link = make("a", { href: "#/decisions/" + decision.number }, moveWords(decision.moves[0], decision.movesCount));
        shown = { time: make("span", { cls: "soft", title: clock(decision.at) }), outcome: make("div", { cls: "soft outcome" }) };
        shown.element = make("li", {}, shown.time, " ", link, make("div", {}, decision.moves[0].reason), shown.outcome);
        this.shown.set(key, shown);
      }
      setText(shown.time, ago(decision.at));
      setText(shown.outcome, outcomeWords(decision));
      return shown.element;
    }));
    for (const [key, shown] of this.shown) if (key.startsWith("decision") && shown.element.parentElement !== this.moves) this.shown.delete(key);
  }

  repaint() {}

  end() {}
}
