// The table of topics.

import { $, clone, keyed, setText } from "./dom.js";
import { bytes, count, countParts } from "./format.js";
import { Rate } from "./rate.js";

const rates = new Map();
const order = { by: "name", down: false };
let topics = [];

/** Shows what GET /topics said. */
export function showTopics(listed, now) {
  topics = listed;
  for (const name of [...rates.keys()].filter((known) => !listed.some((topic) => topic.name === known))) {
    rates.delete(name);
  }
  for (const topic of listed) {
    if (!rates.has(topic.name)) {
      rates.set(topic.name, new Rate());
    }
    rates.get(topic.name).see(topic.messages, now);
  }
  draw();
}

export function rateText(name) {
  const current = rates.get(name)?.current ?? null;
  return current === null ? "–" : `${countParts(current).join(" ").trim()}/s`;
}

function draw() {
  const asked = $("filter").value.trim().toLowerCase();
  const shown = topics.filter((topic) => topic.name.toLowerCase().includes(asked)).sort(compare);
  keyed($("topics").tBodies[0], shown, (topic) => topic.name, () => clone("topic-row"), drawRow);
  $("no-topics").hidden = topics.length > 0;
  $("topics").hidden = topics.length === 0;
  $("no-match").hidden = topics.length === 0 || shown.length > 0;
}

function drawRow(row, topic) {
  const link = row.querySelector("a");
  setText(link, topic.name);
  link.href = `#topic=${encodeURIComponent(topic.name)}`;
  setText(row.querySelector(".partitions"), count(topic.num_partitions));
  setText(row.querySelector(".messages"), count(topic.messages));
  setText(row.querySelector(".size"), bytes(topic.size_bytes));
  setText(row.querySelector(".rate"), rateText(topic.name));
  rates.get(topic.name).draw(row.querySelector(".spark"));
}

function compare(one, other) {
  const [low, high] = order.down ? [other, one] : [one, other];
  if (order.by === "name") {
    return low.name < high.name ? -1 : 1;
  }
  const value = (topic) => (order.by === "rate" ? (rates.get(topic.name).current ?? 0) : topic[order.by]);
  return value(low) - value(high) || (one.name < other.name ? -1 : 1);
}

/** The first click on a number shows the largest first; on the name, A first. */
function sortBy(button) {
  const by = button.dataset.sort;
  order.down = order.by === by ? !order.down : by !== "name";
  order.by = by;
  for (const head of $("topics").tHead.querySelectorAll("th")) {
    head.removeAttribute("aria-sort");
  }
  button.closest("th").setAttribute("aria-sort", order.down ? "descending" : "ascending");
  draw();
}

export function startTopics() {
  const here = location.origin + location.pathname.replace(/\/$/, "");
  $("first-steps").textContent =
    `curl ${here}/topics -d '{"name": "orders", "num_partitions": 3}'\n` +
    `curl ${here}/topics/orders/messages -d '{"messages": [{"key": "user-1", "value": "hello"}]}'`;
  $("filter").addEventListener("input", draw);
  for (const button of $("topics").tHead.querySelectorAll("button")) {
    button.addEventListener("click", () => sortBy(button));
  }
}
