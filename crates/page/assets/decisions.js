// The decisions that moved memory, the latest first: givers, takers, reasons, what was predicted
// and what came. One of them can be opened, with the curves as they were.
import { make, setText, arrange, plainTable } from "./dom.js";
import { bytes, count, percent, signed, ago, clock } from "./format.js";
import { CurveChart } from "./charts.js";
import { poolLink } from "./app.js";

// Decisions that are listed at once, and charts of one.
const FEW = 40, CHARTS = 6;

export function saving(n) {
  const few = Math.abs(n) < 0.05 ? 0 : n;
  return (few < 0 ? "to add " : "to save ") + count(Math.abs(few)) + " misses a second";
}

export function saved(n) {
  return saving(n).replace("to add", "added").replace("to save", "saved");
}

// A decision as the views show it, of the JSON in which a server or an orchestrator tells it. `ratiosOf` names the miss ratios of a pool.
export function decisionOf(made, ratiosOf) {
  const of = made.outcome || {};
  return {
    number: made.number, at: made.at_secs, policy: made.policy, node: made.node, dryRun: made.dry_run, curves: made.curves || {}, movesCount: made.moves_count, movedBytes: made.moved_bytes, poolsCount: made.pools_count,
    predicted: of.predicted_saved_misses_per_sec, measured: of.measured_saved_misses_per_sec,
    moves: made.moves.map(move => ({ ...move, saved: move.saved_misses_per_sec })),
    pools: (made.pools || []).map(pool => ({ name: pool.name, before: pool.before_bytes, granted: pool.granted_bytes, ...ratiosOf(pool) })),
  };
}

export function outcomeWords(decision) {
  const { predicted, measured } = decision;
  if (decision.dryRun) return "A dry run, which moved nothing." + (predicted == null ? "" : " Predicted " + saving(predicted) + ".");
  if (predicted == null) return "No miss ratio was predicted.";
  const came = measured == null ? "not measured yet, as no pool has had its grant for a round"
    : "as measured, it " + saved(measured);
  return "Predicted " + saving(predicted) + "; " + came + ".";
}

export function moveWords(move, of = 1) {
  return (move.from || "free memory") + " → " + (move.to || "free memory") + ": " + bytes(move.bytes) + (of > 1 ? " and " + (of - 1) + " more" : "");
}

// Words about those of a decision that are not kept, as they are smaller; null if all are.
function moreWords(all, kept, name) {
  const more = (all ?? kept) - kept;
  return more > 0 ? "and " + count(more) + " more " + name + (more > 1 ? "s" : "") : null;
}

// What is shown of a decision and stays so: numbers begin anew with each process, and a search shows other moves.
const keyOf = decision => [decision.number, decision.at, ...decision.moves.map(move => moveWords(move) + move.reason)].join("\n");

export class Decisions {
  constructor(source, number) {
    Object.assign(this, { source, number, name: "Decisions", items: new Map(), charts: [], all: false });
    this.sum = make("p");
    this.words = make("input", { type: "search", placeholder: "Search", "aria-label": "Search decisions by pool or reason", oninput: () => this.find() });
    this.found = make("span", { role: "status", cls: "soft" });
    this.list = make("ol", { cls: "timeline" });
    this.more = make("button", { type: "button", hidden: true, onclick: () => { this.all = true; this.draw(); } }, "Show all");
    this.one = make("section", { cls: "card", hidden: true });
    this.element = make("div", {}, this.one, make("section", { cls: "card" }, make("h2", {}, "Decisions"), this.sum, make("div", { cls: "tools" }, this.words, this.found), this.list, this.more));
    if (number != null) this.open();
  }

  update(model) {
    this.model = model;
    if (this.words.value.trim()) this.find(); else this.decisions = model.decisions;
    setText(this.sum, model.policy.text + "." + (model.policy.error == null ? ""
      : " " + count(model.policy.predictions) + " predicted miss ratios were off by " + (100 * model.policy.error).toFixed(1) + " points on average."));
    this.draw();
  }

  // Decisions that have the words, which are searched for where all moves are.
  async find() {
    const words = this.words.value.trim();
    const found = words ? await this.source.decisions({ words }).catch(() => null) : this.model.decisions;
    if (this.ended || words !== this.words.value.trim() || !found) return;
    this.decisions = found;
    this.draw();
  }

  draw() {
    const some = this.all ? this.decisions : this.decisions.slice(0, FEW);
    setText(this.found, this.words.value.trim() ? this.decisions.length + " of " + this.model.decisions.length : this.decisions.length + " kept");
    this.more.hidden = some.length === this.decisions.length;
    arrange(this.list, some.map(decision => this.item(decision)));
    const shown = new Set(some.map(keyOf));
    for (const key of this.items.keys()) if (!shown.has(key)) this.items.delete(key);
  }

  item(decision) {
    let item = this.items.get(keyOf(decision));
    if (!item) {
      item = { time: make("span", { cls: "soft" }), outcome: make("div", { cls: "soft outcome" }) };
      const moves = decision.moves.map(move => make("li", {}, make("strong", {}, moveWords(move)), " – " + move.reason));
      const more = moreWords(decision.movesCount, moves.length, "move");
      if (more) moves.push(make("li", { cls: "soft" }, more));
      const link = make("a", { href: "#/decisions/" + decision.number, "aria-current": decision.number === this.number ? "true" : null }, "Decision " + decision.number);
      item.element = make("li", {}, link, " ", item.time, (decision.node ? " · " + decision.node : "") + (decision.dryRun ? " · dry run" : ""), make("ul", {}, ...moves), item.outcome);
      this.items.set(keyOf(decision), item);
    }
    setText(item.time, clock(decision.at) + ", " + ago(decision.at));
    setText(item.outcome, outcomeWords(decision));
    return item.element;
  }

  async open() {
    this.one.hidden = false;
    this.one.replaceChildren(make("h2", {}, "Decision " + this.number));
    try {
      const decision = await this.source.decision(this.number);
      if (!this.ended) this.show(decision);
    } catch (error) {
      this.one.append(make("p", { cls: "bad" }, error.message));
    }
  }

  show(decision) {
    const soft = words => words && make("p", { cls: "soft" }, words);
    const moreMoves = moreWords(decision.movesCount, decision.moves.length, "move"), morePools = moreWords(decision.poolsCount, decision.pools.length, "pool");
    const parts = (...all) => this.one.append(...all.filter(part => part != null));
    const moves = decision.moves.map(move => [make("span", { cls: "words" }, moveWords(move)), count(move.saved), make("span", { cls: "words" }, move.reason)]);
    const pools = decision.pools.map(pool => [make("a", { href: poolLink(pool.name, decision.node) }, pool.name), bytes(pool.before), bytes(pool.granted), signed(pool.granted - pool.before, bytes), percent(pool.missed), percent(pool.expected), percent(pool.since)]);
    parts(make("p", { cls: "soft" }, clock(decision.at) + " · " + decision.policy + (decision.node ? " · " + decision.node : "") + (decision.dryRun ? " · a dry run, which moved nothing" : "")),
      make("p", {}, outcomeWords(decision)),
      plainTable("Moves", ["Move", "Misses/s saved", make("span", { cls: "words" }, "Reason")], moves),
      soft(moreMoves && moreMoves + "; all move " + bytes(decision.movedBytes) + " together."), make("h3", {}, "Pools"),
      plainTable("Pools of the decision", ["Pool", "Grant before", "Since", "Change", "Missed before", "Predicted", "Measured since"], pools), soft(morePools && morePools + ", which change less."),
      make("h3", {}, "Curves as they were"));
    const known = decision.pools.filter(pool => Object.hasOwn(decision.curves, pool.name) && decision.curves[pool.name].length).slice(0, CHARTS);
    const box = make("div", { cls: "pair" });
    this.one.append(known.length ? box : make("p", { cls: "soft" }, "No curve was known."));
    for (const pool of known) {
      const chart = new CurveChart("Miss ratio of " + pool.name + " by memory", 200);
      const words = "With " + bytes(pool.before) + " before and " + bytes(pool.granted) + " since: predicted " + percent(pool.expected) + " missed, measured " + percent(pool.since) + ".";
      box.append(make("div", {}, make("h3", {}, pool.name), chart.box, make("p", { cls: "soft" }, words)));
      chart.update({ points: decision.curves[pool.name], words, now: pool.missed == null ? null : [pool.before, pool.missed], marks: [{ at: pool.before, name: "before", colour: "--soft", dashed: true }, { at: pool.granted, name: "since", colour: "--warm" }] });
      this.charts.push(chart);
    }
  }

  repaint() { this.charts.forEach(chart => chart.repaint()); }

  end() {
    this.ended = true;
    this.charts.forEach(chart => chart.destroy());
  }
}
