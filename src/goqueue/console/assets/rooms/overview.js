// The node at a glance: what is wrong, what flows, the last hours; and the first minute of a newcomer.

import { call, readOnlyReason, state } from "../api.js";
import { Charts } from "../chart.js";
import { h, put } from "../dom.js";
import { bytes, count, duration, short } from "../format.js";
import { traceparent } from "../publish.js";
import { card, empty, facts, head, link, notify, to, write } from "../ui.js";

const CHARTS = [
  ["Messages in", "/s", [["messages", "in.messages"]]],
  ["Bytes in and out", "B/s", [["in", "in.bytes"], ["out", "out.bytes"]]],
  ["Answers", "/s", [["acked", "acked"], ["nacked", "nacked"], ["dead", "dead"]]],
  ["Lag of all groups", "", [["messages", "lag"]]],
  ["Queues", "", [["ready", "ready"], ["in flight", "in_flight"], ["waiting", "waiting"]]],
  ["Delayed", "", [["waiting for their time", "delayed"]]],
  ["Processor", "%", [["of one core", "cpu"]]],
  ["Event loop late", "ms", [["mean", "loop_lag"]]],
  ["Memory", "B", [["resident", "memory"]]],
];

export async function openOverview() {
  const charts = new Charts(CHARTS);
  const tiles = h("div.tiles");
  const problems = h("div");
  const first = h("div");
  const doors = await call("GET /doors").catch(() => null);
  async function refresh() {
    const [stats, reliability, ready] = await Promise.all([
      call("GET /stats"), call("GET /reliability/stats"), call("GET /readyz", { query: { verbose: "true" } })]);
    const dead = Object.values(reliability.totals.dead_letters).reduce((sum, one) => sum + one, 0);
    const wrong = Object.entries(ready.checks ?? {}).filter(([, one]) => !one.ok);
    const used = 100 * (1 - stats.disk.free_bytes / stats.disk.total_bytes);
    put(tiles,
      tile("Topics", count(stats.topics), `${count(stats.partitions)} partitions`, "#/topics"),
      tile("Messages", short(stats.messages), bytes(stats.size_bytes), "#/topics"),
      tile("Ready in queues", short(reliability.totals.ready), `${short(reliability.totals.in_flight)} in flight`, "#/queues"),
      tile("Dead letters", short(dead), "since groups began", "#/dead", dead ? "warm" : ""),
      tile("Disk", `${used.toFixed(0)} %`, `${bytes(stats.disk.free_bytes)} free`, "#/cluster", used > 90 ? "bad" : used > 75 ? "warm" : ""),
      tile("Up", duration(stats.uptime_ms), `version ${stats.version}`, "#/cluster"));
    put(problems, wrong.length ? card("What is wrong", h("ul", null, wrong.map(([name, one]) => h("li", `${name}: ${one.detail}`)))) : null);
    const isNew = stats.topics === 0;
    if (isNew !== (first.firstChild !== null)) {
      put(first, isNew ? welcome() : null);
    }
    await charts.refresh();
  }
  const where = doors ? card("Where clients connect", facts([["REST", doors.rest], ["Kafka", doors.kafka ?? "shut"], ["gRPC", doors.grpc ?? "shut"], ["SQS", doors.sqs ?? "shut"],
    ["Reference", h("a", { href: "docs" }, "REST routes, with examples")]])) : null;
  return { content: [head("Overview"), problems, first, tiles, charts.node, where], refresh };
}

function tile(name, value, more, href, kind = "") {
  return h("a.tile", { href, class: kind }, h("span", name), h("b", value), h("small", more));
}

function welcome() {
  return card("", empty("Nothing is here yet. Send your first message.", "One click makes the topic “hello” and puts a traced message into it. Then receive it as a consumer would, and look at its trace.",
    write("Send a first message", async () => {
      await call("POST /topics", { body: { name: "hello" } });
      const headers = { traceparent: traceparent() };
      await call("POST /topics/{topic}/messages", { params: { topic: "hello" }, body: { messages: [{ key: "first", value: '{"greeting": "hello"}', headers }] } });
      notify("Stored in the topic “hello”. “Receive” takes the message as a consumer of a group would.", "good", link("Receive it", to("queues", "console", "hello")));
      location.hash = to("topics", "hello", "messages");
    }, "primary"), state.isReadOnly ? h("p", readOnlyReason()) : h("p", null, "or ", h("a", { href: "#/topics?new" }, "make a topic of your own"), ".")));
}

