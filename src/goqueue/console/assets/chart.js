// Lines over time, drawn as SVG from the node's own history.

import { call } from "./api.js";
import { h, put, s } from "./dom.js";
import { time, UNITS } from "./format.js";

const WIDTH = 600;
const HEIGHT = 120;

/** What the node kept: {step_ms, end_ms, series: {name: [value or null, ...]}}. */
export const history = (query) => call("GET /history", { query });

/** A chart in a card. `lines` is [[label, points], ...]; points are numbers or null, the last at `endMs`. */
export function chart(title, lines, { unit = "", stepMs, endMs }) {
  const show = UNITS[unit];
  const length = Math.max(...lines.map(([, points]) => points.length), 2);
  const top = niceTop(Math.max(...lines.flatMap(([, points]) => points.map((one) => one ?? 0)), 0));
  const x = (place) => (place / (length - 1)) * WIDTH;
  const y = (value) => HEIGHT - (value / top) * (HEIGHT - 6);
  const now = lines.map(([label, points]) => [label, [...points].reverse().find((one) => one !== null)]);
  const told = now.map(([label, value]) => `${lines.length > 1 ? `${label} ` : ""}${value === undefined ? "no data" : show(value)}`).join(", ");
  const mark = s("line.cursor", { y1: 0, y2: HEIGHT, x1: -9, x2: -9 });
  const svg = s("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img", "aria-label": `${title}: now ${told}, at most ${show(top)}` },
    [0.5, 1].map((share) => s("line.grid", { x1: 0, x2: WIDTH, y1: y(top * share), y2: y(top * share) })),
    lines.map(([, points], at) => path(points, x, y, at, lines.length === 1, length)), mark);
  const legend = h("p.legend", null, now.map(([label, value], at) => h("span", { class: `c${at}` }, h("b", value === undefined ? "–" : show(value)), lines.length > 1 ? ` ${label}` : "")));
  const place = h("span.at");
  svg.addEventListener("pointermove", (event) => {
    const share = event.offsetX / svg.clientWidth;
    const index = Math.max(0, Math.min(length - 1, Math.round(share * (length - 1))));
    mark.setAttribute("x1", x(index));
    mark.setAttribute("x2", x(index));
    const seen = lines.map(([label, points]) => { const value = points[index - (length - points.length)]; return `${lines.length > 1 ? `${label} ` : ""}${value === null || value === undefined ? "–" : show(value)}`; });
    place.textContent = `${time(endMs - (length - 1 - index) * stepMs).slice(11, 19)}  ${seen.join(", ")}`;
  });
  svg.addEventListener("pointerleave", () => { place.textContent = ""; mark.setAttribute("x1", -9); mark.setAttribute("x2", -9); });
  return h("figure.chart", null, h("figcaption", null, h("span", title), legend),
    h("div.plot", null, h("span.top", show(top)), svg),
    h("p.axis", null, h("span", clock(endMs - (length - 1) * stepMs)), place, h("span", "now")));
}

const clock = (ms) => time(ms).slice(11, 16);

function path(points, x, y, at, filled, length) {
  const runs = [];
  let run = [];
  points.forEach((value, place) => {
    if (value === null) {
      runs.push(run);
      run = [];
    } else {
      run.push(`${x(place + length - points.length).toFixed(1)},${y(value).toFixed(1)}`);
    }
  });
  runs.push(run);
  const drawn = runs.filter((one) => one.length).map((one) => (one.length === 1 ? `M${one[0]}h.1` : `M${one.join("L")}`)).join("");
  const area = runs.filter((one) => one.length > 1).map((one) => `M${one[0].split(",")[0]},${HEIGHT}L${one.join("L")}L${one.at(-1).split(",")[0]},${HEIGHT}Z`).join("");
  return s("g", { class: `c${at}` }, filled ? s("path.area", { d: area }) : null, s("path.line", { d: drawn }));
}

function niceTop(value) {
  if (!(value > 0)) {
    return 1;
  }
  const unit = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 2.5, 5, 10].map((one) => one * unit).find((one) => one >= value * 1.02) ?? value * 1.1;
}

/** A line without axes, for a table's cell. */
export function spark(points) {
  const shown = points.map((one) => one ?? 0);
  const top = Math.max(...shown, 1e-9);
  const x = (place) => ((place / Math.max(1, shown.length - 1)) * 100).toFixed(1);
  const line = shown.map((value, place) => `${x(place)},${(22 - (value / top) * 20).toFixed(1)}`).join("L");
  return s("svg.spark", { viewBox: "0 0 100 24", preserveAspectRatio: "none", "aria-hidden": "true" },
    shown.length > 1 ? s("path.line", { d: `M${line}` }) : null);
}

/** Charts that are drawn again as the node's history grows. `wanted` is [[title, unit, [[label, series, scale], ...]], ...]. */
export class Charts {
  constructor(wanted, minutes = 60) {
    this.wanted = wanted;
    this.minutes = minutes;
    this.last = 0;
    this.plots = h("div.charts");
    const choose = h("select", { "aria-label": "Time shown", onchange: () => { this.minutes = Number(choose.value); this.last = 0; this.refresh(); } },
      [[15, "15 minutes"], [60, "1 hour"], [180, "3 hours"], [360, "6 hours"]].map(([value, label]) => h("option", { value, selected: value === minutes }, label)));
    this.whose = h("p.muted");
    this.node = h("section", null, h("div.bar", null, h("h2", "The last hours"), choose), this.whose, this.plots);
  }

  async refresh() {
    if (Date.now() - this.last < 10_000) {
      return;
    }
    this.last = Date.now();
    const names = this.wanted.flatMap(([, , lines]) => lines.map(([, name]) => name.replaceAll("%", "%25").replaceAll(",", "%2C")));
    let found;
    try {
      found = await history({ series: names.join(","), minutes: this.minutes, points: 240 });
    } catch (error) {
      if (error.status !== 403) {
        throw error;
      }
      this.last = Infinity;
      put(this.plots, h("p.muted", "Charts are for those who may describe the cluster."));
      return;
    }
    put(this.whose, found.node === null ? "" : `Numbers of node ${found.node}, which serves this page: each node keeps its own.`);
    const drawn = this.wanted.map(([title, unit, lines]) => chart(title,
      lines.map(([label, name, scale = 1]) => [label, (found.series[name] ?? []).map((one) => (one === null ? null : one * scale))]),
      { unit, stepMs: found.step_ms, endMs: found.end_ms }));
    if (!this.plots.matches(":hover")) {
      put(this.plots, drawn);
    }
  }
}
