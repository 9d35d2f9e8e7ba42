// One pool: its curve with its present size, what more and less memory would give, and what its
// process knows of it besides.
import { make, setText, plainTable } from "./dom.js";
import { bytes, count, percent, span, signed } from "./format.js";
import { CurveChart } from "./charts.js";
import { predicted, step, workingSet } from "./curve.js";
import { moveWords, outcomeWords } from "./decisions.js";

export class Pool {
  constructor(source, id) {
    Object.assign(this, { source, id, name: id });
    this.head = make("h2", {}, id);
    this.facts = make("dl", { cls: "facts" });
    this.chart = new CurveChart("Miss ratio of " + id + " by memory");
    this.words = make("p", { cls: "soft" });
    this.step = make("div");
    this.points = make("div");
    this.curve = make("section", { cls: "card", hidden: true }, make("h2", {}, "Misses by memory"), this.chart.box, this.words, make("details", {}, make("summary", {}, "The curve as a table"), this.points));
    this.steps = make("section", { cls: "card", hidden: true }, make("h2", {}, "One more, one less"), this.step);
    this.unknown = make("section", { cls: "card", hidden: true });
    this.more = make("div", { cls: "pair" });
    this.moved = make("section", { cls: "card" }, make("h2", {}, "Decisions about it"));
    this.moves = make("ul");
    this.moved.append(this.moves);
    this.element = make("div", {}, make("section", { cls: "card" }, this.head, this.facts), this.curve, this.steps, this.unknown, this.more, this.moved);
  }

  async update(model) {
    this.model = model;
    try {
      const pool = await this.source.pool(this.id, model);
      if (this.ended) return;
      setText(this.head, this.id === pool.name ? this.id : this.id + ", in the pool " + pool.name);
      this.unknown.hidden = true;
      this.show(pool);
      const about = (await this.source.decisions({ pool: pool.name })).slice(0, 8);
      if (this.ended) return;
      const keys = about.map(decision => decision.number + outcomeWords(decision)).join();
      // As it was, so that a link keeps the focus.
      if (keys !== this.told) this.moves.replaceChildren(...about.map(decision => make("li", {}, make("a", { href: "#/decisions/" + decision.number }, moveWords(decision.moves[0])), " – " + decision.moves[0].reason + ". ", make("span", { cls: "soft" }, outcomeWords(decision)))));
      this.told = keys;
      this.moved.hidden = !about.length;
    } catch (error) {
      if (this.ended) return;
      this.unknown.hidden = false;
      this.moved.hidden = true;
      this.unknown.replaceChildren(make("p", {}, error.message));
    }
  }

  show(pool) {
    const facts = [...pool.facts];
    const learnt = pool.points;
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
    this.facts.replaceChildren(...facts.flatMap(([name, value]) => [make("dt", {}, name), make("dd", {}, value)]));
    this.more.replaceChildren(...(pool.more || []).map(part => make("section", { cls: "card" }, make("h2", {}, part.name), part.rows.length ? plainTable(part.name, part.heads, part.rows) : make("p", { cls: "soft" }, part.none))));
  }

  showSteps(pool) {
    const size = step(pool.granted), now = predicted(pool, pool.granted);
    const rows = [[bytes(size) + " less", pool.granted - size], ["As it is", pool.granted], [bytes(size) + " more", pool.granted + size]].filter(([, bytes]) => bytes > 0);
    const shown = rows.map(([name, granted]) => {
      const miss = predicted(pool, granted), hits = pool.reads == null ? null : (now - miss) * pool.reads;
      const isNow = granted === pool.granted, none = isNow ? "" : null;
      return [name, bytes(granted), percent(1 - miss, 2), none ?? signed(hits, count), none ?? (pool.missCost == null || hits == null ? "–" : signed(hits * pool.missCost, span)),
        pool.reads == null ? "–" : count(miss * pool.reads) + (isNow ? "" : " (" + signed(-hits, count) + ")")];
    });
    this.step.replaceChildren(plainTable("One more, one less", ["Memory", "Grant", "Hits", "Hits/s", "Waiting saved, each second", "Backend requests/s"], shown));
    this.step.querySelectorAll("tbody tr").forEach((row, i) => { if (rows[i][1] === pool.granted) row.className = "now"; });
  }

  showPoints(points) {
    const some = points.filter((_, i) => i % Math.ceil(points.length / 16) === 0 || i === points.length - 1);
    this.points.replaceChildren(plainTable("The curve as a table", ["Memory", "Missed"], some.map(([size, miss]) => [bytes(size), percent(miss)])));
  }

  repaint() { this.chart.repaint(); }

  end() {
    this.ended = true;
    this.chart.destroy();
  }
}
