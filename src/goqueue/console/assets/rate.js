// A counter seen over time as a rate, and its small curve.

const WINDOW_MS = 120_000;
const WIDTH = 240;
const HEIGHT = 44;
const MARGIN = 2;

/** Rates per second of a counter that is looked at now and then. A counter that went back (restart, retention) is no rate. */
export class Rate {
  #points = [];
  #last = null;

  see(value, now) {
    const last = this.#last;
    this.#last = { value, now };
    if (last === null || now <= last.now) {
      return;
    }
    this.#points.push({ at: now, rate: (Math.max(0, value - last.value) * 1000) / (now - last.now) });
    this.#points = this.#points.filter((point) => point.at >= now - WINDOW_MS);
  }

  /** The newest rate, or null before there are two looks. */
  get current() {
    return this.#points.length ? this.#points[this.#points.length - 1].rate : null;
  }

  get peak() {
    return Math.max(0, ...this.#points.map((point) => point.rate));
  }

  /** Draws into an <svg> that has a path.line and a path.area. */
  draw(svg) {
    const points = this.#points;
    const [line, area] = points.length > 1 ? this.#paths(points) : ["", ""];
    svg.querySelector(".line").setAttribute("d", line);
    svg.querySelector(".area").setAttribute("d", area);
  }

  #paths(points) {
    const end = points[points.length - 1].at;
    const top = this.peak || 1;
    const x = (point) => (WIDTH - ((end - point.at) / WINDOW_MS) * WIDTH).toFixed(1);
    const y = (point) => (HEIGHT - MARGIN - (point.rate / top) * (HEIGHT - 2 * MARGIN)).toFixed(1);
    const line = `M${points.map((point) => `${x(point)},${y(point)}`).join("L")}`;
    return [line, `${line}L${WIDTH},${HEIGHT}L${x(points[0])},${HEIGHT}Z`];
  }
}
