// A live tail over server-sent events. The browser reconnects by itself and goes on where it was.

import { address, Problem } from "./api.js";
import { complain } from "./toast.js";

const SHOWN_AT_ONCE_MAX = 500;
const PAUSE_MS = 150; // drawing more often would freeze the page under a flood

let source = null;

/** Hands over messages a few times a second; of a flood, only the newest. */
export function startTail(topic, partition, ends, { onMessages, onState, onEnd }) {
  stopTail();
  const from = [...ends].map(([place, offset]) => `${place}:${offset}`).join(",");
  const query = partition === null ? { from } : { from, partition };
  const stream = new EventSource(address("GET /topics/{topic}/tail", { topic }, query));
  let waiting = [];
  let received = 0;
  const flush = () => {
    if (stream === source) {
      onMessages(waiting.map((data) => JSON.parse(data)), received);
    }
    [waiting, received] = [[], 0];
  };
  stream.addEventListener("open", () => onState("live"));
  stream.addEventListener("message", (event) => {
    if (!received) {
      setTimeout(flush, PAUSE_MS);
    }
    waiting.push(event.data);
    received += 1;
    if (waiting.length > 2 * SHOWN_AT_ONCE_MAX) {
      waiting = waiting.slice(-SHOWN_AT_ONCE_MAX);
    }
  });
  // The node's own word about what went wrong comes as an event of this name too, with data.
  stream.addEventListener("error", (event) => {
    if (event.data === undefined && stream.readyState === EventSource.CONNECTING) {
      onState("reconnecting");
      return;
    }
    const why = event.data ? JSON.parse(event.data) : { code: "tail-ended", detail: "The node closed the tail." };
    if (why.code !== "unknown-topic") {
      complain(new Problem(why)); // that the topic is gone, its own view tells
    }
    onEnd();
  });
  source = stream;
}

export function stopTail() {
  source?.close();
  source = null;
}
