// One pool: its curve with its present size, what more and less memory would give, and what its
// process knows of it besides.
import { make, setText, arrange, PlainTable } from "./dom.js";
import { bytes, count, percent, span, signed } from "./format.js";
import { CurveChart } from "./charts.js";
import { predicted, step, workingSet } from "./curve.js";
import { moveWords, outcomeWords } from "./decisions.js";
import { Gone } from "./app.js";

export class Pool {
  constructor(source, { id, node }) {
    Object.assign(this, { source, id, node, name: id + (node ? " on " + node : ""), parts: new Map() });
    this.head = make("h2", {}, id);
    this.facts = make("dl", { cls: "facts" });
    this.chart = new CurveChart("Miss ratio of " + id + " by memory");
    this.words = make("p", { cls: "soft" });
    this.step = new PlainTable("One more, one less", ["Memory", "Grant", "Hits", "Hits/s", "Waiting saved, each second", "Backend requests/s"]);
    this.points = new PlainTable("The curve as a table", ["Memory", "Missed"]);
    this.curve = make("section", { cls: "card", hidden: true }, make("h2", {}, "Misses by memory"), this.chart.box, this.words, make("details", {}, make("summary", {}, "The curve as a table"), this.points.whole));
    this.steps = make("section", { cls: "card", hidden: true }, make("h2", {}, "One more, one less"), this.step.whole);
    this.unknown = make("section", { cls: "card", hidden: true });
    this.more = make("div", { cls: "pair" });
    this.moved = make("section", { cls: "card" }, make("h2", {}, "Decisions about it"));
    this.moves = make("ul");
    this.moved.append(this.moves);
    this.element = make("div", {}, make("section", { cls: "card" }, this.head, this.facts), this.curve, this.steps, this.unknown, this.more, this.moved);
  }

  async update(model) {
    // An answer that comes late shows no older figures over newer ones.
    if (this.isAsking) return;
    this.isAsking = true;
    try {
      const pool = await this.source.pool(this.id, model, this.node);
      if (this.ended) return;
      setText(this.head, this.id === pool.name ? this.id : this.id + ", in the pool " + pool.name);
      this.unknown.hidden = true;
      this.show(pool);
      const asked = { pool: pool.name, ...(pool.node ? { node: pool.node } : {}) };
      const about = (await this.source.decisions(asked)).slice(0, 8);
      if (this.ended) return;
      arrange(this.moves, about.map(decision => this.move(decision)));
      for (const [key, part] of this.parts) if (key.startsWith("decision ") && part.element.parentElement !== this.moves) this.parts.delete(key);
      this.moved.hidden = !about.length;
    } catch (error) {
      if (!this.ended) this.fail(error);
    } finally {
      this.isAsking = false;
    }
  }

  // What is known of a pool that is there no more is not of now.
  fail(error) {
    this.unknown.hidden = false;
    this.moved.hidden = true;
    if (error instanceof Gone) {
      this.curve.hidden = this.steps.hidden = true;
      this.facts.replaceChildren();
      this.more.replaceChildren();
    }
    const links = error.links || [], words = error.message + links.map(link => link.target).join();
    if (words === this.failure) return;
    this.failure = words;
    this.unknown.replaceChildren(make("p", {}, error.message), make("ul", {}, ...links.map(({ name, target }) => make("li", {}, make("a", { href: target }, name)))));
  }

  // An element that stays, so that a link keeps the focus as the outcome changes.
  move(decision) {
    const move = decision.moves[0], key = ["decision", decision.number, decision.at, moveWords(move), move.reason].join(" ");
    let shown = this.parts.get(key);
    if (!shown) {
      shown = { outcome: make("span", { cls: "soft" }) };
      shown.element = make("li", {}, make("a", { href: "#/decisions/" + decision.number }, moveWords(move)), " – " + move.reason + ". ", shown.outcome);
      this.parts.set(key, shown);
    }
    setText(shown.outcome, outcomeWords(decision));
    return shown.element;
  }

  fact([name, value]) {
    const key = "fact " + name;
    if (!this.parts.has(key)) this.parts.set(key, [make("dt", {}, name), make("dd")]);
    const pair = this.parts.get(key);
    setText(pair[1], value);
    return pair;
  }

  part({ name, heads, rows, none }) {
    const key = "part " + name;
    let shown = this.parts.get(key);
    if (!shown) {
      shown = { table: new PlainTable(name, heads), none: make("p", { cls: "soft" }, none) };
      shown.element = make("section", { cls: "card" }, make("h2", {}, name), shown.table.whole, shown.none);
      this.parts.set(key, shown);
    }
    shown.table.update(rows.map(cells => ({ key: cells[0], cells })));
    shown.table.whole.hidden = !rows.length;
    shown.none.hidden = !!rows.length;
    return shown.element;
  }

  show(pool) {
    const facts = [...pool.facts];
    const learnt = pool.points && pool.points.length ? pool.points : null;
    this.curve.hidden = this.steps.hidden = !learnt;
    if (learnt) {
      const working = pool.workingSet ?? workingSet(learnt);
      facts.push(["Working set", bytes(working) + ": beyond it less than 1 % of the reads is saved"]);
      const curve = "Learnt from " + count(pool.samples) + " reads; " + (pool.error == null ? "its error is not known" : "off by at most " + (100 * pool.error).toFixed(1) + " points on average, in 95 of 100 cases") + "; " + pool.age + ".";
      setText(this.words, curve + (pool.missRatio == null ? "" : " The point is what was measured."));
      const words = bytes(pool.granted) + (pool.isGrant ? " are granted" : " are used") + ", " + percent(predicted(pool, pool.granted)) + " missed with that. ";
      this.chart.update({ points: learnt, error: pool.error || 0, now: [pool.used, pool.missRatio], words: words + curve, marks: [{ at: pool.granted, name: pool.isGrant ? "granted" : "present", colour: "--warm" }, { at: working, name: "working set", colour: "--soft", dashed: true }] });
      this.showSteps(pool);
      this.showPoints(learnt);
    }
    facts.push(["A miss costs", pool.missCost == null ? "not known" : span(pool.missCost) + (pool.missCostNote || " on average")]);
    arrange(this.facts, facts.flatMap(fact => this.fact(fact)));
    arrange(this.more, (pool.more || []).map(part => this.part(part)));
  }

  showSteps(pool) {
    const size = step(pool.granted), now = predicted(pool, pool.granted);
    const rows = [["less", bytes(size) + " less", pool.granted - size], ["now", "As it is", pool.granted], ["more", bytes(size) + " more", pool.granted + size]];
    this.step.update(rows.filter(([, , bytes]) => bytes > 0).map(([key, name, granted]) => {
      const miss = predicted(pool, granted), hits = pool.reads == null ? null : (now - miss) * pool.reads;
      const isNow = key === "now", none = isNow ? "" : null;
      const cells = [name, bytes(granted), percent(1 - miss, 2), none ?? signed(hits, count), none ?? (pool.missCost == null || hits == null ? "–" : signed(hits * pool.missCost, span)),
        pool.reads == null ? "–" : count(miss * pool.reads) + (isNow ? "" : " (" + signed(-hits, count) + ")")];
      return { key, cells, cls: isNow ? "now" : "" };
    }));
  }

  showPoints(points) {
    const some = points.filter((_, i) => i % Math.ceil(points.length / 16) === 0 || i === points.length - 1);
    this.points.update(some.map(([size, miss], i) => ({ key: i, cells: [bytes(size), percent(miss)] })));
  }

  repaint() { this.chart.repaint(); }

  end() {
    this.ended = true;
    this.chart.destroy();
  }
}
