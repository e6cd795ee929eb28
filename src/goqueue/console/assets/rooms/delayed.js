// Delayed messages: when they come, which they are, and taking one back.

import { call } from "../api.js";
import { h, put } from "../dom.js";
import { ago, count, time } from "../format.js";
import { inspector } from "../inspector.js";
import { Table } from "../table.js";
import { card, chip, complain, confirm, empty, field, head, notify, to, write } from "../ui.js";

const PAGE = 500;
const LATE_MS = 5_000;

export const openDelayed = (place) => (place.parts.length ? openTopic(place.parts[0], place) : openAll());

async function openAll() {
  const tiles = h("div.tiles");
  const { topics } = await call("GET /topics");
  const choose = field({ name: "topic", label: "Topic", options: [["", "choose one"], ...topics.map((one) => one.name)], onchange: (name) => { if (name) { location.hash = to("delayed", name); } } });
  async function refresh() {
    const stats = await call("GET /delay/stats");
    put(tiles, [["Waiting", count(stats.pending)], ["Delivered", count(stats.delivered)], ["Cancelled", count(stats.cancelled)], ["Expired", count(stats.expired)],
      ["Next", stats.next_due ? ago(Date.parse(stats.next_due)) : "–"], ["Late, 99 %", stats.late_ms_p99 === null ? "–" : `${stats.late_ms_p99.toFixed(1)} ms`]].map(([name, value]) => h("div.tile", null, h("span", name), h("b", value))));
  }
  return { content: [head("Delayed", { about: "Messages that wait for their time. They are stored, and in no partition yet." }), tiles, card("", choose, h("p.hint", "A message is delayed by publishing it to a topic with a time (“Deliver at”), a delay, or a repeat."))], refresh };
}

async function openTopic(name, place) {
  const view = { rows: [], asked: new Set(), skip0: 0 };
  const aside = h("div");
  const calendar = h("div.calendar", { role: "group", "aria-label": "Calendar" });
  const told = h("p.muted", { role: "status" });
  let [pending, looked, generation] = [0, 0, 0];
  const from = place.query.get("from");
  const table = new Table({
    label: "Delayed messages", height: "tall", key: (one) => `${one.partition}:${one.scheduled}`, onOpen: (one) => open(one), load: (index) => load(Math.floor(index / PAGE)),
    columns: [
      { name: "due", label: "Deliver at", text: (one) => time(Date.parse(one.deliverAt)) },
      { name: "in", label: "That is", text: (one) => ago(Date.parse(one.deliverAt)) },
      { name: "place", label: "Address", text: (one) => `${one.partition}/${one.scheduled}` },
      { name: "key", label: "Key", text: (one) => one.key ?? "" },
      { name: "repeat", label: "Repeats", cell: (one) => (one.repeat ? chip(one.repeat.cron ?? `every ${one.repeat.every}`) : ""), className: "least" },
      { name: "value", label: "Value", text: (one) => (one.value ?? "").slice(0, 200), className: "mono" },
    ],
    empty: empty("Nothing waits here.", "Publish with a time (“Deliver at”), a delay, or a repeat."),
  });
  const split = h("div.split", null, h("div", null, table.node, told), aside);

  async function load(page) {
    if (view.asked.has(page)) {
      return;
    }
    view.asked.add(page);
    const mine = generation;
    try {
      const found = await call("GET /topics/{topic}/delayed", { params: { topic: name }, query: { limit: PAGE, skip: view.skip0 + page * PAGE } });
      if (mine === generation) {
        found.delayed.forEach((one, at) => { view.rows[page * PAGE + at] = one; });
        table.show(view.rows);
      }
    } catch (error) {
      view.asked.delete(page);
      complain(error);
    }
  }

  async function reload() {
    generation += 1;
    const buckets = await call("GET /topics/{topic}/delayed/calendar", { params: { topic: name } });
    pending = buckets.pending;
    const first = from === null ? 0 : buckets.buckets.filter((one) => one.from_ms < Number(from)).reduce((sum, one) => sum + one.count, 0);
    view.skip0 = first;
    view.rows = new Array(Math.max(0, pending - first)).fill(undefined);
    view.asked = new Set();
    const most = Math.max(1, ...buckets.buckets.map((one) => one.count));
    put(calendar, buckets.buckets.map((one) => h("button", { type: "button", class: `h${Math.ceil((3 * one.count) / most)}`, "aria-pressed": String(String(one.from_ms) === from),
      onclick: () => { location.hash = to("delayed", name, String(one.from_ms) === from ? {} : { from: one.from_ms }); } },
    h("small", label(one.from_ms, buckets.step_ms)), h("b", count(one.count)))));
    put(told, `${count(pending)} wait${first ? `, ${count(first)} of them before the time chosen above` : ""}.`);
    table.show(view.rows);
  }

  function open(message) {
    const close = () => { put(aside); split.classList.remove("two"); table.show(view.rows, null); };
    const cancel = write("Cancel it", () => confirm("Cancel this message?", "It is never delivered.", "Cancel it", async () => {
      await call("DELETE /topics/{topic}/delayed/{partition}/{offset}", { params: { topic: name, partition: message.partition, offset: message.scheduled } });
      notify("Cancelled: it is never delivered.");
      close();
      await reload();
    }), "danger");
    put(aside, inspector({ ...message, topic: name, priority: undefined, timestamp: undefined, offset: undefined }, { topic: name, onClose: close, more: [cancel],
      extra: [["Deliver at", time(Date.parse(message.deliverAt))], ["State", message.state], ["Accepted", message.accepted ? time(message.accepted) : null], ["Delivered so far", message.fired ? count(message.fired) : null]] }));
    split.classList.add("two");
    table.show(view.rows, `${message.partition}:${message.scheduled}`);
  }

  async function refresh() {
    if (Date.now() - looked < LATE_MS) {
      return;
    }
    looked = Date.now();
    const { pending: now } = await call("GET /topics/{topic}/delayed", { params: { topic: name }, query: { limit: 1 } });
    if (now !== pending || generation === 0) {
      await reload();
    }
  }
  return { content: [head(`Delayed in ${name}`, { up: ["Delayed", "#/delayed"] }), card("Calendar", calendar), split], refresh };
}

function label(ms, step) {
  const text = time(ms);
  return step >= 86_400_000 ? text.slice(5, 10) : step >= 3_600_000 ? `${text.slice(5, 10)} ${text.slice(11, 16)}` : text.slice(11, 16);
}
