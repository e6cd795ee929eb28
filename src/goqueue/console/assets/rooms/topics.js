// Topics: the list, and one of them with its tabs.

import { call } from "../api.js";
import { Charts, history, spark } from "../chart.js";
import { h, paused, put } from "../dom.js";
import { bytes, count, meaning, time, UNITS } from "../format.js";
import { openMessages } from "./messages.js";
import { publishDialog } from "../publish.js";
import { Table } from "../table.js";
import { ask, card, chip, confirm, empty, facts, head, notify, tabs, to, write } from "../ui.js";

const HISTORY_MS = 10_000;

export const openTopics = (place) => (place.parts.length ? openTopic(place) : openList(place));

function openList(place) {
  const rates = new Map();
  let [all, known] = [[], -HISTORY_MS];
  const filter = h("input", { type: "search", placeholder: "Filter", "aria-label": "Filter topics", "data-filter": "", oninput: paused(() => show(), 80) });
  const table = new Table({
    label: "Topics", className: "wide",
    columns: [
      { name: "name", label: "Topic", text: (one) => one.name, sort: (one) => one.name },
      { name: "partitions", label: "Partitions", num: true, text: (one) => count(one.num_partitions), sort: (one) => one.num_partitions, className: "least" },
      { name: "messages", label: "Messages", num: true, text: (one) => count(one.messages), sort: (one) => one.messages },
      { name: "size", label: "Size", num: true, text: (one) => bytes(one.size_bytes), sort: (one) => one.size_bytes },
      { name: "rate", label: "In", num: true, text: (one) => (rates.has(one.name) ? UNITS["/s"](rates.get(one.name).at(-1) ?? 0) : "–"), sort: (one) => rates.get(one.name)?.at(-1) ?? -1 },
      { name: "trend", label: "Last hour", cell: (one) => (rates.has(one.name) ? spark(rates.get(one.name)) : ""), className: "least" },
      { name: "created", label: "Created", text: (one) => time(one.created_ms).slice(0, 16), sort: (one) => one.created_ms, className: "least" },
    ],
    key: (one) => one.name, href: (one) => to("topics", one.name), sort: ["name", 1],
    empty: empty("No topics yet.", "A topic is where messages are kept. Make one, or let a Kafka client make it by writing.", write("New topic", () => newTopic(), "primary")),
  });
  const show = () => table.show(filter.value ? all.filter((one) => one.name.toLowerCase().includes(filter.value.toLowerCase())) : all);
  async function refresh() {
    all = (await call("GET /topics")).topics;
    if (performance.now() - known > HISTORY_MS) {
      known = performance.now();
      const found = await history({ prefix: "topic.in:", minutes: 60, points: 40 }).catch(() => ({ series: {} }));
      Object.entries(found.series).forEach(([name, points]) => rates.set(name.slice("topic.in:".length), points));
    }
    show();
  }
  if (place.query.has("new")) {
    newTopic();
  }
  return { content: [head("Topics", { about: "Where messages are kept, in order, in partitions.", actions: [filter, write("New topic", () => newTopic(), "primary")] }), table.node], refresh };
}

function newTopic() {
  ask({
    title: "New topic",
    submitLabel: "Create",
    fields: [
      { name: "name", label: "Name", required: true, placeholder: "orders" },
      { name: "num_partitions", label: "Partitions", type: "number", min: 1, placeholder: "the node's default" },
      { name: "replication_factor", label: "Replicas", type: "number", min: 1, placeholder: "the node's default" },
      { name: "config", label: "Settings", type: "textarea", rows: 3, placeholder: "retention.ms=86400000", hint: "One a line: name=value. They can be changed later." },
    ],
    submit: async (given) => {
      const config = Object.fromEntries(given.config.split("\n").filter((one) => one.includes("=")).map((one) => [one.slice(0, one.indexOf("=")).trim(), one.slice(one.indexOf("=") + 1).trim()]));
      const body = { name: given.name, config };
      ["num_partitions", "replication_factor"].filter((name) => given[name]).forEach((name) => { body[name] = Number(given[name]); });
      await call("POST /topics", { body });
      location.hash = to("topics", given.name);
    },
  });
}

const TABS = { "": openFacts, messages: openMessages, settings: openSettings };

async function openTopic(place) {
  const [name, tab = ""] = place.parts;
  const topic = await call("GET /topics/{topic}", { params: { topic: name } });
  const room = await (TABS[tab] ?? openFacts)(name, topic, place);
  const top = head(name, { up: ["Topics", "#/topics"], actions: [write("Publish", () => publishDialog(name, topic.num_partitions, null, () => (room.reload ?? room.refresh)?.()), "primary"),
    write("Receive", () => { location.hash = to("queues", "console", name); }), ...(room.actions ?? [])] });
  const label = { "": "Topic", messages: "Messages", settings: "Settings" }[tab] ?? "Topic";
  const bar = tabs("Topic", label, [["Topic", to("topics", name)], ["Messages", to("topics", name, "messages")], ["Settings", to("topics", name, "settings")],
    ["Delayed", to("delayed", name)], ["Dead letters", to("dead", name)], ["Traces", to("traces", { topic: name })]]);
  return { ...room, content: [top, bar, room.content] };
}

function openFacts(name, first) {
  const charts = new Charts([["Messages in", "/s", [["messages", `topic.in:${name}`]]], ["Bytes in and out", "B/s", [["in", `topic.bytes:${name}`], ["out", `topic.out:${name}`]]]]);
  const about = h("div");
  const parts = new Table({
    label: "Partitions", height: "short", key: (one) => one.partition,
    columns: [
      { name: "partition", label: "Partition", text: (one) => one.partition, sort: (one) => one.partition },
      { name: "leader", label: "Leader", num: true, text: (one) => `node ${one.leader}`, sort: (one) => one.leader },
      { name: "messages", label: "Messages", num: true, text: (one) => count(one.messages), sort: (one) => one.messages },
      { name: "size", label: "Size", num: true, text: (one) => bytes(one.size_bytes), sort: (one) => one.size_bytes },
      { name: "start", label: "First", num: true, text: (one) => count(one.start_offset), className: "least" },
      { name: "end", label: "End", num: true, text: (one) => count(one.end_offset), className: "least" },
      { name: "watermark", label: "Readable to", num: true, text: (one) => count(one.high_watermark), className: "least" },
      { name: "state", label: "State", cell: (one) => (one.writable ? one.damaged.length ? chip(`${one.damaged.length} damaged ranges`, "bad") : chip("writable", "good") : chip("read-only", "bad")) },
    ],
    href: (one) => to("topics", name, "messages", { partition: one.partition }),
  });
  async function refresh(topic) {
    const now = topic ?? await call("GET /topics/{topic}", { params: { topic: name } });
    put(about, facts([["Messages", count(now.messages)], ["Size", bytes(now.size_bytes)], ["Partitions", count(now.num_partitions)], ["Replicas", String(now.replication_factor)],
      ["Created", time(now.created_ms)], ["Id", now.id], ["Kept for", meaning("retention.ms", now.config["retention.ms"])], ["Cleanup", now.config["cleanup.policy"]]]));
    parts.show(now.partitions);
    await charts.refresh();
  }
  refresh(first);
  const actions = [
    write("Add partitions", () => ask({
      title: `Add partitions to ${name}`, submitLabel: "Add", fields: [{ name: "partitions", label: "So many in all", type: "number", min: first.num_partitions, value: first.num_partitions + 1 }],
      about: "Keys are spread anew: a key's later messages may go to another partition than its earlier ones.",
      submit: async ({ partitions }) => {
        const told = await call("POST /admin/topics/{topic}/partitions", { params: { topic: name }, body: { partitions: Number(partitions) } });
        notify(told.note);
        refresh();
      },
    })),
    write("Delete", () => confirm(`Delete ${name}?`, `Its ${count(first.messages)} messages are gone for ever, and nobody can read them any more.`, "Delete", async () => {
      await call("DELETE /topics/{topic}", { params: { topic: name } });
      location.hash = "#/topics";
    }), "danger"),
  ];
  return { content: h("div.grid", null, card("", about), h("br"), card("Partitions and their leaders", parts.node), h("br"), charts.node), refresh: () => refresh(), actions };
}

async function openSettings(name, topic) {
  const { settings } = await call("GET /settings/topics");
  const docs = new Map(settings.map((one) => [one.name, one]));
  const rows = (now) => Object.entries(now.config).map(([key, value]) => ({ key, value, set: key in now.overrides, doc: docs.get(key)?.doc ?? "" }));
  const table = new Table({
    label: "Settings", className: "plainlines", rowPx: 48, height: "tall", key: (one) => one.key + one.value,
    columns: [
      { name: "key", label: "Setting", cell: (one) => h("code", one.key), sort: (one) => one.key },
      { name: "value", label: "Value", cell: (one) => [h("b", one.value === "" ? "“”" : one.value), " ", h("span.muted", meaning(one.key, one.value)), " ", one.set ? chip("set here", "good") : ""], sort: (one) => (one.set ? 0 : 1) },
      { name: "doc", label: "What it is for", text: (one) => one.doc },
      { name: "change", label: "Change", cell: (one) => write("Change", () => change(one)) },
    ],
    sort: ["value", 1],
  });
  async function refresh(now) {
    table.show(rows(now ?? await call("GET /topics/{topic}", { params: { topic: name } })));
  }
  function change(one) {
    const known = docs.get(one.key);
    ask({
      title: one.key, about: one.doc,
      fields: [{ name: "value", label: "Value", value: one.value, hint: `The default is ${known?.default === "" ? "empty" : known?.default}.` }, { name: "back", label: "Back to the default", type: "checkbox" }],
      submit: async (given) => refresh(await call("PATCH /topics/{topic}", { params: { topic: name }, body: { config: { [one.key]: given.back ? null : given.value } } })),
    });
  }
  refresh(topic);
  return { content: table.node };
}

