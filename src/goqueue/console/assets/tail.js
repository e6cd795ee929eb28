// A live tail: server-sent events read from a stream, so that they can carry credentials. Only what is shown is parsed.

import { stream, Unreachable } from "./api.js";

const KEPT_MAX = 500; // of a flood, only the newest are shown; the others are counted
const DRAW_MS = 120;
const AGAIN_MS = 1_000;

/** `onRows(newest messages, received, dropped)` at most a few times a second, in an animation frame. */
export class Tail {
  constructor(topic, query, { onRows, onState }) {
    Object.assign(this, { topic, query, onRows, onState });
    this.waiting = [];
    this.received = 0;
    this.dropped = 0;
    this.rest = "";
    this.stopping = new AbortController();
    this.run();
  }

  async run() {
    while (!this.stopping.signal.aborted) {
      try {
        this.onState("live");
        await stream("GET /topics/{topic}/tail", { params: { topic: this.topic }, query: this.query, signal: this.stopping.signal }, (text) => this.feed(text));
      } catch (error) {
        if (error.name === "AbortError" || this.stopping.signal.aborted) {
          return;
        }
        if (!(error instanceof Unreachable) && error.name !== "TypeError") {
          this.onState("ended", error);
          return;
        }
      }
      this.onState("waiting");
      await new Promise((resolve) => setTimeout(resolve, AGAIN_MS));
    }
  }

  feed(text) {
    const parts = (this.rest + text).split("\n\n");
    this.rest = parts.pop();
    for (const part of parts) {
      if (part.includes("event: message\n")) {
        this.received += 1;
        this.waiting.push(part);
      }
    }
    const last = parts.findLast((one) => one.includes("id: "));
    if (last) {
      this.query = { ...this.query, from: /^id: (.*)$/m.exec(last)[1] }; // where to go on after a break
    }
    if (this.waiting.length > KEPT_MAX) {
      this.dropped += this.waiting.length - KEPT_MAX;
      this.waiting = this.waiting.slice(-KEPT_MAX);
    }
    if (this.waiting.length) {
      this.soon();
    }
  }

  soon() {
    if (this.planned) {
      return;
    }
    this.planned = true;
    setTimeout(() => requestAnimationFrame(() => this.draw()), DRAW_MS);
  }

  draw() {
    this.planned = false;
    if (this.stopping.signal.aborted) {
      return;
    }
    const shown = this.waiting.slice(-100);
    this.dropped += this.waiting.length - shown.length;
    this.waiting = [];
    this.onRows(shown.map((one) => JSON.parse(one.slice(one.indexOf("\ndata") + 7))), this.received, this.dropped);
  }

  stop() {
    this.stopping.abort();
  }
}
