// Traces: what happened to messages, step by step.

import { call } from "../api.js";
import { h, put } from "../dom.js";
import { count, time } from "../format.js";
import { Table } from "../table.js";
import { card, chip, empty, facts, field, head, link, to, values } from "../ui.js";

const MOOD = { completed: "good", pending: "warm", error: "bad" };

export const openTraces = (place) => (place.parts.length ? openTrace(place.parts[0]) : openList(place));

const took = (us) => (us < 1000 ? `${us} µs` : us < 1_000_000 ? `${(us / 1000).toFixed(us < 10_000 ? 1 : 0)} ms` : `${(us / 1_000_000).toFixed(1)} s`);

function openList(place) {
  const asked = Object.fromEntries(place.query);
  const form = h("form.card.bar", { "aria-label": "Search traces" },
    field({ name: "topic", label: "Topic", value: asked.topic }), field({ name: "key", label: "Key", value: asked.key }), field({ name: "group", label: "Group", value: asked.group }),
    field({ name: "status", label: "Status", options: [["", "any"], "completed", "pending", "error"], value: asked.status ?? "" }),
    field({ name: "id", label: "Trace id" }), h("button.primary", { type: "submit" }, "Search"));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const { id, ...given } = values(form);
    location.hash = id ? to("traces", id.trim().toLowerCase()) : to("traces", given);
  });
  const table = new Table({
    label: "Traces", height: "tall", key: (one) => one.trace_id, href: (one) => to("traces", one.trace_id),
    columns: [
      { name: "id", label: "Trace", text: (one) => `${one.trace_id.slice(0, 12)}…` },
      { name: "status", label: "Status", cell: (one) => chip(one.status, MOOD[one.status]) },
      { name: "topic", label: "Message", text: (one) => `${one.topic} ${one.partition}:${one.offset ?? "–"}` },
      { name: "key", label: "Key", text: (one) => one.key },
      { name: "last", label: "Last event", text: (one) => one.last },
      { name: "events", label: "Events", num: true, text: (one) => count(one.events), className: "least" },
      { name: "took", label: "Took", num: true, text: (one) => took(one.took_us), sort: (one) => one.took_us },
      { name: "started", label: "Began", text: (one) => time(Date.parse(one.started)).slice(0, 19), sort: (one) => one.started, className: "least" },
    ],
    empty: empty("No traces fit.", "A message is traced if its producer asks for it (a traceparent header), or by a share of all: `traces.sample_rate`. “Publish” on this page can trace a message."),
  });
  const isSearch = Object.values(asked).some(Boolean);
  const refresh = async () => table.show((isSearch ? await call("GET /traces/search", { query: { ...asked, limit: 200 } }) : await call("GET /traces", { query: { limit: 200 } })).traces);
  return { content: [head("Traces", { about: "What happened to a message, from the producer to the consumer's answer." }), form, table.node], refresh };
}

async function openTrace(id) {
  const about = h("div");
  const fall = h("div.waterfall", { role: "list", "aria-label": "Events" });
  let drawn = -1;
  async function refresh() {
    const trace = await call("GET /traces/{id}", { params: { id } });
    if (trace.events === drawn) {
      return;
    }
    drawn = trace.events;
    put(about, facts([["Status", chip(trace.status, MOOD[trace.status])], ["Message", link(`${trace.topic} ${trace.partition}:${trace.offset ?? ""}`, to("topics", trace.topic, "messages", { partition: trace.partition, offset: trace.offset ?? undefined, open: `${trace.partition}:${trace.offset}` }))],
      ["Key", trace.key], ["Groups", trace.groups.join(", ")], ["Began", time(Date.parse(trace.started))], ["Took", took(trace.took_us)]]));
    put(fall, trace.spans.map((span) => row(span, Math.max(1, trace.took_us))));
  }
  return { content: [head(`Trace ${id.slice(0, 12)}…`, { up: ["Traces", "#/traces"], about: id }), card("", about), card("Waterfall", fall)], refresh };
}

/** A bar from where the event began to where it was over; beside it what is known of it. */
function row(span, whole) {
  const begin = Math.max(0, span.at_us - span.took_us);
  const bar = h("i", { class: /nack|reject|dead|expire|error/i.test(span.name) ? "bad" : "" });
  bar.style.left = `${(100 * begin) / whole}%`;
  bar.style.width = `${(100 * span.took_us) / whole}%`;
  const more = Object.entries({ group: span.group, ...span.attributes }).filter(([, value]) => value !== "" && value !== undefined).map(([key, value]) => `${key} ${value}`).join(", ");
  return h("div.span", { role: "listitem" },
    h("span.what", null, h("b", span.name), h("br"), h("small.muted", more)), h("span.lane", { "aria-hidden": "true" }, bar),
    h("span.n", null, `${took(span.at_us)}`, h("br"), h("small.muted", span.took_us ? `took ${took(span.took_us)}` : "")));
}
