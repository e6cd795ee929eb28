// Dead letters: what died of what, the letter with its trace, mended and sent again, or all that fit redriven.

import { call } from "../api.js";
import { decodeAll } from "../decode.js";
import { h, put } from "../dom.js";
import { ago, count, duration, time } from "../format.js";
import { inspector } from "../inspector.js";
import { content, headerLines, parseHeaders } from "../publish.js";
import { Table } from "../table.js";
import { ask, button, card, chip, confirm, empty, facts, head, link, notify, to, write } from "../ui.js";
import { redriveDialog } from "./redrive.js";

export const openDead = (place) => (place.parts.length ? openTopic(place.parts[0], place.query) : openAll());

async function openAll() {
  const table = new Table({
    label: "Topics with dead letters", key: (one) => one.topic, href: (one) => to("dead", one.topic), sort: ["dead", -1],
    columns: [
      { name: "topic", label: "Died in", text: (one) => one.topic, sort: (one) => one.topic },
      { name: "dead", label: "Given up since groups began", num: true, text: (one) => count(one.total), sort: (one) => one.total },
      { name: "reasons", label: "Reasons", cell: (one) => Object.entries(one.reasons).map(([reason, number]) => [chip(`${reason} ${count(number)}`, "bad"), " "]) },
    ],
    empty: empty("Nothing has died.", "A message dies when it failed too often, was rejected, or ran out of time. It is kept, and can be mended and sent again."),
  });
  async function refresh() {
    const found = new Map();
    for (const one of (await call("GET /reliability/stats")).queues) {
      for (const [reason, number] of Object.entries(one.dead_letters)) {
        const at = found.get(one.topic) ?? { topic: one.topic, total: 0, reasons: {} };
        found.set(one.topic, { ...at, total: at.total + number, reasons: { ...at.reasons, [reason]: (at.reasons[reason] ?? 0) + number } });
      }
    }
    table.show([...found.values()]);
  }
  return { content: [head("Dead letters", { about: "Messages that were given up. They are kept until you decide." }), table.node], refresh };
}

async function openTopic(topic, query) {
  const chosen = { reason: query.get("reason") ?? "", group: query.get("group") ?? "", fingerprint: query.get("fingerprint") ?? "", header: query.get("header") ?? "", key: query.get("key") ?? "" };
  const stats = h("div.grid2");
  const tasks = h("div");
  const aside = h("div");
  const told = h("p.muted", { role: "status" });
  let [rows, next, total] = [[], null, -1];
  const table = new Table({
    label: "Dead letters", height: "tall", key: (one) => `${one.partition}:${one.offset}`, onOpen: (one) => open(one),
    columns: [
      { name: "died", label: "Died", text: (one) => (one.died_at ? time(one.died_at) : ""), sort: (one) => one.died_at ?? 0 },
      { name: "reason", label: "Reason", cell: (one) => chip(one.reason, "bad") },
      { name: "error", label: "Error", text: (one) => one.error.slice(0, 160) },
      { name: "key", label: "Key", text: (one) => one.key ?? "", sort: (one) => one.key ?? "" },
      { name: "group", label: "Group", text: (one) => one.origin?.group ?? "", className: "least" },
      { name: "attempts", label: "Attempts", num: true, text: (one) => one.attempts, className: "least" },
      { name: "value", label: "Value", text: (one) => (one.decoded?.json ?? one.value ?? "").slice(0, 160), className: "mono least" },
    ],
    empty: empty("No dead letters fit.", "Nothing that fits the filter above is here, or it was redriven or deleted."),
  });
  const split = h("div.split", null, h("div", null, table.node, told), aside);
  const params = { topic };

  async function load(more = false) {
    const { key, ...asked } = chosen;
    const page = await call("GET /topics/{topic}/dlq", { params, query: { ...asked, limit: 200, cursor: more ? next : undefined } });
    const found = key ? page.messages.filter((one) => one.key === key) : page.messages;
    rows = await decodeAll(more ? [...rows, ...found] : found);
    next = page.next;
    table.show(rows);
    put(told, `${count(rows.length)} shown. `, next ? button("More", () => load(true)) : null);
  }

  async function refresh() {
    const [now, list] = await Promise.all([call("GET /topics/{topic}/dlq/stats", { params }), call("GET /topics/{topic}/dlq/redrive", { params })]);
    put(tasks, list.redrives.length ? card("Redrives", list.redrives.slice(0, 5).map((one) => progress(one, params))) : null);
    if (now.total !== total) {
      total = now.total;
      put(stats, card("By reason", tally(now.by_reason, (reason) => to("dead", topic, { reason }))), card("By error", prints(now.fingerprints, topic)), card("By group", tally(now.by_group, (group) => to("dead", topic, { group }))));
      await load();
    }
  }

  function open(letter) {
    const close = () => { put(aside); split.classList.remove("two"); table.show(rows, null); };
    const done = async () => { close(); total = -1; await refresh(); };
    const origin = letter.origin ?? { topic };
    const more = [
      write("Edit and send again", () => editDialog(letter, origin.topic, { ...params, partition: letter.partition, offset: letter.offset }, done), "primary"),
      write("Delete", () => confirm("Delete this dead letter?", "It is gone for ever.", "Delete", async () => {
        await call("DELETE /topics/{topic}/dlq/{partition}/{offset}", { params: { ...params, partition: letter.partition, offset: letter.offset } });
        await done();
      }), "danger"),
    ];
    put(aside, inspector({ ...letter, topic: origin.topic, timestamp: undefined }, { topic, title: `Dead letter ${letter.partition}:${letter.offset}`, onClose: close, more, extra: [
      ["Reason", chip(letter.reason, "bad")], ["Died", letter.died_at ? `${time(letter.died_at)} (${ago(letter.died_at)})` : null], ["Group", letter.origin?.group], ["Attempts", count(letter.attempts)], ["Failures", count(letter.failures)],
      ["Came from", letter.origin ? link(`${origin.topic} ${origin.partition}:${origin.offset}`, to("topics", origin.topic, "messages", { partition: origin.partition, offset: origin.offset, open: `${origin.partition}:${origin.offset}` })) : null],
      ["Redriven", letter.redrives ? `${letter.redrives} times` : null]] }));
    aside.firstChild.append(h("h3", "Error"), h("pre", { tabindex: "0", "aria-label": "Error" }, letter.error || "none was given"));
    split.classList.add("two");
    table.show(rows, `${letter.partition}:${letter.offset}`);
  }

  const form = h("form.bar", { "aria-label": "Filter" });
  const input = (name, label, placeholder = "") => h("div.field", null, h("label", { for: `dead-${name}` }, label), h("input", { id: `dead-${name}`, name, value: chosen[name], placeholder }));
  form.append(input("key", "Key"), input("reason", "Reason"), input("group", "Group"), input("header", "Header", "name:value"), h("button", { type: "submit" }, "Filter"), link("All", to("dead", topic)));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const given = Object.fromEntries(new FormData(form));
    location.hash = to("dead", topic, { ...given, fingerprint: chosen.fingerprint });
  });
  const actions = [write("Redrive", () => redriveDialog(topic, chosen, refresh), "primary")];
  return { content: [head(`Dead letters of ${topic}`, { up: ["Dead letters", "#/dead"], actions }), stats, tasks, card("", form, chosen.fingerprint ? h("p.muted", `Only errors like ${chosen.fingerprint}.`) : null), split], refresh };
}

/** The mended message first, then the letter goes: at worst it is there twice, never lost. */
function editDialog(letter, origin, params, done) {
  ask({
    title: "Edit and send again", submitLabel: "Send again", about: `It goes to ${origin} as a new message; the dead letter is then deleted.`,
    fields: [
      { name: "key", label: "Key", value: letter.key ?? "" },
      { name: "value", label: letter.encoding === "base64" ? "Value (base64)" : "Value", type: "textarea", rows: 9, value: letter.value ?? "" },
      { name: "headers", label: "Headers", type: "textarea", rows: 3, value: headerLines(letter.headers) },
      { name: "to", label: "To topic", value: origin },
    ],
    submit: async (given) => {
      const body = content({ ...letter, key: given.key === "" ? null : given.key, value: given.value, headers: parseHeaders(given.headers) });
      const { results } = await call("POST /topics/{topic}/messages", { params: { topic: given.to }, body: { messages: [body] } });
      await call("DELETE /topics/{topic}/dlq/{partition}/{offset}", { params });
      const [one] = results;
      notify(`Sent again: ${given.to} ${one.partition}:${one.offset}.`, "good", link("Show it", to("topics", given.to, "messages", { partition: one.partition, offset: one.offset, open: `${one.partition}:${one.offset}` })));
      await done();
    },
  });
}

function tally(counts, href) {
  const rows = Object.entries(counts).sort(([, a], [, b]) => b - a).slice(0, 20);
  return rows.length ? h("table", { "aria-label": "Counts" }, h("tbody", null, rows.map(([name, number]) => h("tr", null, h("td", null, link(name || "none", href(name))), h("td.n", count(number)))))) : h("p.muted", "None.");
}

function prints(list, topic) {
  return list.length ? h("table.plainlines", { "aria-label": "Errors" }, h("tbody", null, list.map((one) => h("tr", null, h("td", null, link(one.fingerprint, to("dead", topic, { fingerprint: one.fingerprint }))), h("td", one.example.slice(0, 120) || "no error text"), h("td.n", count(one.count)))))) : h("p.muted", "None.");
}

function progress(one, params) {
  const share = one.total ? (100 * one.looked_at) / one.total : 100;
  const bar = h("span");
  bar.style.width = `${share}%`;
  const isRunning = one.state === "running";
  return h("div", null, facts([["State", chip(one.state, isRunning ? "warm" : one.state === "done" ? "good" : "")], ["Moved", `${count(one.moved)} of ${count(one.matched)} that fit`], ["Looked at", `${count(one.looked_at)} of ${count(one.total)}`],
    ["Rate", isRunning ? `${one.moved_per_second.toFixed(0)}/s` : null], ["Left", isRunning && one.eta_ms !== null ? duration(one.eta_ms) : null], ["Began", time(one.started)], ["Failed", one.failed ? `${count(one.failed)}: ${one.failure}` : null]]),
  h("div.meter", { role: "progressbar", "aria-label": "Redrive", "aria-valuenow": Math.round(share), "aria-valuemin": 0, "aria-valuemax": 100 }, bar),
  isRunning ? write("Stop it", () => call("DELETE /topics/{topic}/dlq/redrive/{id}", { params: { ...params, id: one.id } })) : null);
}
