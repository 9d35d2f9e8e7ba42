// Charts of curves by uPlot, and lines beside figures.
import { bytes, percent } from "./format.js";
import { make } from "./dom.js";

/* global uPlot */
const STEPS = Array.from({ length: 40 }, (_, i) => 2 ** (i + 10));
// Room for a name.
const NEAR = 90;
const colour = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

// Lines at sizes, with their names.
function marks(list) {
  return plot => {
    const { ctx, bbox } = plot;
    ctx.save();
    ctx.font = 12 * devicePixelRatio + "px system-ui, sans-serif";
    ctx.textBaseline = "top";
    const all = list().filter(mark => mark.at != null), place = mark => plot.valToPos(mark.at, "x", true);
    all.forEach((mark, i) => {
      const x = place(mark), near = all.map(place).find(other => other !== x && Math.abs(other - x) < NEAR * devicePixelRatio);
      if (x < bbox.left || x > bbox.left + bbox.width) return;
      ctx.strokeStyle = ctx.fillStyle = colour(mark.colour);
      ctx.lineWidth = 2 * devicePixelRatio;
      ctx.setLineDash(mark.dashed ? [4 * devicePixelRatio, 4 * devicePixelRatio] : []);
      ctx.beginPath();
      ctx.moveTo(x, bbox.top);
      ctx.lineTo(x, bbox.top + bbox.height);
      ctx.stroke();
      // Names stand to the right, but for one that would run into the next line or out of the chart.
      const isRight = (near == null || near < x) && x < bbox.left + bbox.width - NEAR * devicePixelRatio;
      ctx.textAlign = isRight ? "left" : "right";
      ctx.fillText(mark.name, x + (isRight ? 6 : -6) * devicePixelRatio, bbox.top + (4 + 16 * i) * devicePixelRatio);
    });
    ctx.restore();
  };
}

// A point where the pool is now.
function dot(at) {
  return plot => {
    const now = at();
    if (!now || now[1] == null) return;
    const { ctx } = plot, x = plot.valToPos(now[0], "x", true), y = plot.valToPos(100 * now[1], "y", true);
    ctx.save();
    ctx.fillStyle = colour("--warm");
    ctx.beginPath();
    ctx.arc(x, y, 5 * devicePixelRatio, 0, 2 * Math.PI);
    ctx.fill();
    ctx.restore();
  };
}

// A curve with its error band. `shown` has `points`, `error`, `marks` and `now` ([bytes, miss
// ratio]), and is set again by `update`.
export class CurveChart {
  constructor(label, height = 260) {
    this.label = label;
    this.height = height;
    this.box = make("div", { cls: "chart", role: "img", "aria-label": label });
    this.sized = new ResizeObserver(() => this.fit());
    this.sized.observe(this.box);
  }

  data() {
    const { points, error = 0 } = this.shown, last = points.at(-1);
    const most = Math.max(last[0], ...this.shown.marks.map(mark => 1.15 * (mark.at || 0)), ...(this.shown.now ? [1.05 * this.shown.now[0]] : []));
    const all = [...(points[0][0] > 0 ? [[0, 1]] : []), ...points, ...(most > last[0] ? [[most, last[1]]] : [])];
    const clamp = x => 100 * Math.min(1, Math.max(0, x));
    return [all.map(p => p[0]), all.map(p => 100 * p[1]), all.map(p => clamp(p[1] - error)), all.map(p => clamp(p[1] + error))];
  }

  update(shown) {
    this.shown = shown;
    this.box.setAttribute("aria-label", this.label + ". " + (shown.words || ""));
    if (this.plot) this.plot.setData(this.data());
    else this.fit();
  }

  fit() {
    const width = this.box.clientWidth;
    if (!width || !this.shown) return;
    if (this.plot) { if (this.plot.width !== width) this.plot.setSize({ width, height: this.height }); return; }
    const line = colour("--line"), soft = colour("--soft"), blue = colour("--blue"), none = { show: false };
    const axis = { stroke: soft, grid: { stroke: line, width: 1 }, ticks: { stroke: line, width: 1 }, font: "12px system-ui, sans-serif" };
    const edge = label => ({ label, stroke: "transparent", points: none, value: (_, v) => v == null ? "–" : percent(v / 100) });
    this.plot = new uPlot({
      width, height: this.height, padding: [8, 28, 0, 0],
      scales: { x: { time: false, range: (_, least, most) => [0, most] }, y: { range: [0, 100] } },
      axes: [
        { ...axis, size: 30, incrs: STEPS, space: 90, values: (_, all) => all.map(bytes) },
        { ...axis, size: 52, values: (_, all) => all.map(v => v + " %") },
      ],
      series: [
        { label: "memory", value: (_, v) => bytes(v) },
        { label: "missed", stroke: blue, width: 2, points: none, value: (_, v) => v == null ? "–" : percent(v / 100) },
        edge("at least"), edge("at most"),
      ],
      bands: [{ series: [3, 2], fill: colour("--band") }],
      cursor: { y: false, drag: { x: false, y: false } },
      hooks: { draw: [marks(() => this.shown.marks), dot(() => this.shown.now)] },
    }, this.data(), this.box);
  }

  // Draws it in the colours of another theme.
  repaint() {
    if (!this.plot) return;
    this.plot.destroy();
    this.plot = null;
    this.fit();
  }

  destroy() {
    this.sized.disconnect();
    if (this.plot) this.plot.destroy();
  }
}

// A line of the latest values, for people who see it beside its figure.
export function sparkline(values, most) {
  const ns = "http://www.w3.org/2000/svg", svg = document.createElementNS(ns, "svg"), line = document.createElementNS(ns, "polyline");
  svg.setAttribute("viewBox", "0 0 " + (most - 1) + " 30");
  svg.setAttribute("preserveAspectRatio", "none");
  svg.setAttribute("aria-hidden", "true");
  svg.append(line);
  drawLine(svg, values, most);
  return svg;
}

export function drawLine(svg, values, most) {
  const top = Math.max(...values.filter(v => v != null), 1e-9);
  svg.firstChild.setAttribute("points", values.map((v, i) => (most - values.length + i) + "," + (29 - 27 * (v ?? 0) / top)).join(" "));
}
