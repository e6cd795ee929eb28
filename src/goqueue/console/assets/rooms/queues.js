// Queues: a group in a topic, message by message. What is ready, who holds what, and acting on it.

import { call, state } from "../api.js";
import { Charts } from "../chart.js";
import { decodeAll } from "../decode.js";
import { h, put } from "../dom.js";
import { ago, count, duration, time } from "../format.js";
import { inspector } from "../inspector.js";
import { traceOf } from "../publish.js";
import { Receiver } from "../receiver.js";
import { Table } from "../table.js";
import { ask, button, card, chip, empty, head, link, notify, to, write } from "../ui.js";

const LEASES_MAX = 500;

export const openQueues = (place) => (place.parts.length >= 2 ? openQueue(...place.parts) : openList());

const dead = (one) => Object.values(one.dead_letters).reduce((sum, part) => sum + part, 0);

async function openList() {
  const table = new Table({
    label: "Queues", key: (one) => `${one.group}\n${one.topic}`, href: (one) => to("queues", one.group, one.topic), sort: ["ready", -1],
    columns: [
      { name: "name", label: "Group in topic", text: (one) => `${one.group} in ${one.topic}`, sort: (one) => one.group },
      { name: "ready", label: "Ready", num: true, text: (one) => count(one.ready), sort: (one) => one.ready },
      { name: "leased", label: "In flight", num: true, text: (one) => count(one.in_flight), sort: (one) => one.in_flight },
      { name: "waiting", label: "Waiting", num: true, text: (one) => count(one.waiting), sort: (one) => one.waiting },
      { name: "acked", label: "Acked", num: true, text: (one) => count(one.acked), sort: (one) => one.acked, className: "least" },
      { name: "failed", label: "Nacked", num: true, text: (one) => count(one.nacked), sort: (one) => one.nacked, className: "least" },
      { name: "expired", label: "Leases run out", num: true, text: (one) => count(one.expired_leases), sort: (one) => one.expired_leases, className: "least" },
      { name: "dead", label: "Dead", num: true, text: (one) => count(dead(one)), sort: dead },
    ],
    empty: empty("Nobody takes messages one by one yet.", "A queue is a group in a topic: it appears with the first poll. Receive here as a consumer would, from any topic.", write("Receive", receive, "primary")),
  });
  async function receive() {
    const { topics } = await call("GET /topics");
    ask({
      title: "Receive as a consumer", submitLabel: "Open", changes: false,
      fields: [{ name: "topic", label: "Topic", options: topics.map((one) => one.name) }, { name: "group", label: "Group", value: "console", required: true, hint: "Other groups notice nothing." }],
      submit: async (given) => { location.hash = to("queues", given.group, given.topic); },
    });
  }
  return { content: [head("Queues", { about: "Messages handed out one by one under leases.", actions: [write("Receive", receive)] }), table.node], refresh: async () => table.show((await call("GET /reliability/stats")).queues) };
}

async function openQueue(group, topic) {
  await call("GET /topics/{topic}", { params: { topic } });
  const where = { params: { group, topic } };
  const receiver = new Receiver(group, topic);
  const charts = new Charts([["Ready", "", [["messages", `ready:${group}/${topic}`]]], ["Lag", "", [["messages", `lag:${group}`]]]]);
  const tiles = h("div.tiles");
  const mine = h("div");
  const begun = h("div");
  const peeked = h("div");
  const lanes = laneTable();
  const leases = leaseTable(where, () => refresh());
  let held = [];
  async function refresh() {
    const before = held;
    await receiver.keep();
    const [numbers, byLane, listed] = await Promise.all([call("GET /reliability/stats", { query: { group, topic } }), call("GET /priority/stats", { query: { group, topic } }),
      call("GET /queues/{group}/{topic}/leases", { ...where, query: { limit: LEASES_MAX } }).catch((error) => (error.status === 404 ? { leases: [], total: 0 } : Promise.reject(error)))]);
    const one = numbers.queues[0] ?? { ready: 0, in_flight: 0, waiting: 0, acked: 0, nacked: 0, dead_letters: {} };
    const oldest = Math.min(...byLane.lanes.map((lane) => lane.oldest_waiting ?? Infinity));
    put(tiles, [["Ready", count(one.ready)], ["In flight", count(one.in_flight)], ["Waiting to come again", count(one.waiting)], ["Acked", count(one.acked)], ["Nacked", count(one.nacked)], ["Dead", count(dead(one))],
      ["Oldest ready", Number.isFinite(oldest) ? duration(Date.now() - oldest) : "–"]].map(([name, value]) => h("div.tile", null, h("span", name), h("b", value))));
    put(begun, numbers.queues.length || held.length ? null : h("p.muted", `The group “${group}” has taken nothing from this topic yet: “Receive” makes it begin, and what is ready is counted from then on.`));
    lanes.show(byLane.lanes);
    leases.show(listed.leases);
    forgetLost(before, listed.leases);
    await charts.refresh();
  }
  /** What was held before the node was asked, and is held no more: its lease ran out while somebody read it. */
  function forgetLost(before, now) {
    const until = new Map(now.map((one) => [one.receipt, one.leased_until]));
    const lost = now.length < LEASES_MAX ? before.filter((one) => one.receipt && held.includes(one) && !until.has(one.receipt)) : [];
    const moved = before.filter((one) => until.has(one.receipt) && until.get(one.receipt) !== one.leased_until);
    moved.forEach((one) => { one.leased_until = until.get(one.receipt); });
    held = held.filter((one) => !lost.includes(one));
    lost.forEach((one) => notify(`The lease of ${one.partition}:${one.offset} ended before it was answered here: the message comes again.`, "warm"));
    if (lost.length || moved.length) {
      showHeld();
    }
  }
  async function answer(message, route, body, told) {
    await call(route, { body: { receipt: message.receipt, ...body } });
    held = held.filter((one) => one !== message);
    const trace = traceOf(message.headers);
    notify(told, "good", trace ? link("See its trace", to("traces", trace)) : null);
    showHeld();
    await refresh();
  }
  function showHeld() {
    put(mine, held.map((message) => inspector(message, { topic, extra: [["Attempt", count(message.attempt)], ["Failures", count(message.failures)], ["Held until", time(message.leased_until)]],
      more: [write("Ack", () => answer(message, "POST /messages/ack", {}, "Acked: the group is done with it."), "primary"),
        write("Nack", () => answer(message, "POST /messages/nack", { reason: "nacked in the console" }, "Nacked: it comes again after a back-off.")),
        write("Reject", () => answer(message, "POST /messages/reject", { reason: "rejected in the console" }, "Rejected: it is in the dead letters."), "danger")] })));
  }
  async function receive() {
    const found = await decodeAll(await receiver.take());
    if (!found.length) {
      notify("Nothing is ready for this group now.");
    }
    held = [...found, ...held];
    showHeld();
    await refresh();
  }
  async function peek() {
    const { messages } = await call("GET /queues/{group}/{topic}/peek", { ...where, query: { limit: 50 } });
    const shown = await decodeAll(messages);
    const table = new Table({
      label: "Next messages", height: "short", key: (one) => `${one.partition}:${one.offset}`, className: "message",
      columns: [{ name: "place", label: "Place", cell: (one) => link(`${one.partition}:${one.offset}`, to("topics", topic, "messages", { partition: one.partition, offset: one.offset, open: `${one.partition}:${one.offset}` })) },
        { name: "age", label: "Published", text: (one) => ago(one.timestamp) }, { name: "lane", label: "Lane", text: (one) => one.priority }, { name: "key", label: "Key", text: (one) => one.key ?? "" },
        { name: "value", label: "Value", text: (one) => (one.decoded?.json ?? one.value ?? "").slice(0, 200) }],
      empty: "Nothing is ready.",
    });
    put(peeked, card("Next to be handed out (nothing was taken)", table.show(shown).node));
  }
  const actions = [button("Peek", peek), write("Receive", receive, "primary")];
  return { content: [head(`${group} in ${topic}`, { up: ["Queues", "#/queues"], actions }), tiles, begun, mine, peeked, card("Leases", leases.node), card("Lanes", lanes.node), charts.node,
    h("p.muted", null, link("Group", to("groups", group)), " · ", link("Topic", to("topics", topic)), " · ", link("Dead letters", to("dead", topic)))],
  refresh, close: () => state.isReadOnly || receiver.leave() };
}

function laneTable() {
  return new Table({
    label: "Lanes", height: "short", key: (one) => `${one.lane}:${one.partition}`,
    columns: [
      { name: "lane", label: "Lane", cell: (one) => chip(one.lane), sort: (one) => one.lane },
      { name: "partition", label: "Partition", num: true, text: (one) => one.partition, sort: (one) => one.partition },
      { name: "ready", label: "Ready", num: true, text: (one) => count(one.ready), sort: (one) => one.ready },
      { name: "flight", label: "In flight", num: true, text: (one) => count(one.in_flight) },
      { name: "waiting", label: "Waiting", num: true, text: (one) => count(one.waiting) },
      { name: "out", label: "Handed out", num: true, text: (one) => count(one.dequeued), className: "least" },
      { name: "served", label: "Last served", text: (one) => (one.last_served ? ago(one.last_served) : "never"), className: "least" },
      { name: "oldest", label: "Oldest ready", text: (one) => (one.oldest_waiting ? ago(one.oldest_waiting) : "–") },
    ],
    empty: "No lane held anything yet.",
  });
}

function leaseTable(where, after) {
  const extend = (lease, timeout, told) => async () => {
    await call("POST /messages/visibility", { body: { receipt: lease.receipt, timeout } });
    notify(told);
    await after();
  };
  return new Table({
    label: "Leases", height: "short", key: (one) => one.receipt,
    columns: [
      { name: "place", label: "Message", cell: (one) => link(`${one.partition}:${one.offset}`, to("topics", where.params.topic, "messages", { partition: one.partition, offset: one.offset, open: `${one.partition}:${one.offset}` })), sort: (one) => one.offset },
      { name: "owner", label: "Held by", cell: (one) => h("span", { title: one.owner }, one.owner), sort: (one) => one.owner, className: "owner" },
      { name: "until", label: "Until", text: (one) => ago(one.leased_until), sort: (one) => one.leased_until },
      { name: "since", label: "Since", text: (one) => ago(one.leased_since), className: "least" },
      { name: "attempt", label: "Attempt", num: true, text: (one) => one.attempt, sort: (one) => one.attempt },
      { name: "failures", label: "Failures", num: true, text: (one) => one.failures, className: "least" },
      { name: "act", label: "Act", cell: (one) => [write("Extend 5 min", extend(one, "5m", "The lease ends in five minutes.")), " ", write("Take back", extend(one, 0, "Taken back: it is ready for others."), "danger")] },
    ],
    empty: "Nobody holds a message now.",
  });
}
