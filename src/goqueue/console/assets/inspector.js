// One message, whole: where it is, its headers, its value by its schema, and what can be done with it.

import { copy, h } from "./dom.js";
import { bytes, count, indentJson, time } from "./format.js";
import { asCommand, asPython, publishDialog, traceOf } from "./publish.js";
import { button, facts, link, notify, to, write } from "./ui.js";

const SHOWN_CHARS_MAX = 200_000;

/** `more` are buttons of the room. */
export function inspector(message, { topic, partitions = 1, onClose, more = [], extra = [], title }) {
  const trace = traceOf(message.headers);
  const source = message.topic ?? topic;
  const actions = [
    ...more,
    trace ? link("Trace", to("traces", trace), "button") : null,
    write("Publish again", () => publishDialog(source, partitions, message)),
    copying("Copy as curl", () => asCommand(source, message)),
    copying("Copy as Python", () => asPython(source, message)),
    message.offset !== undefined && message.timestamp !== undefined
      ? copying("Copy link", () => new URL(to("topics", source, "messages", { partition: message.partition, offset: message.offset, open: `${message.partition}:${message.offset}` }), location.href).href) : null,
  ];
  return h("aside.inspector.card", { "aria-label": "Message" },
    h("div.bar", null, h("h2", title ?? `${source} ${message.partition}:${message.offset ?? message.scheduled ?? ""}`), onClose ? h("button.plain", { type: "button", onclick: onClose, "aria-label": "Close the message" }, "×") : null),
    h("div.actions", null, actions),
    facts([["Partition", String(message.partition)], ["Offset", message.offset === undefined ? null : count(message.offset)], ["Time", message.timestamp === undefined ? null : time(message.timestamp)],
      ["Priority", message.priority], ["Key", message.key === null || message.key === undefined ? "none" : h("code", message.key + (message.key_encoding === "base64" ? " (base64)" : ""))], ...extra]),
    headerTable(message.headers), ...valueParts(message));
}

const copying = (label, text) => button(label, async () => {
  await copy(text());
  notify("Copied.");
});

/** Names keep their width, values get the rest and break where they must. */
function headerTable(headers) {
  const rows = Object.entries(headers ?? {}).flatMap(([name, values]) => (Array.isArray(values) ? values : [values]).map((value) => [name, headerText(value)]));
  if (!rows.length) {
    return null;
  }
  return h("section", null, h("h3", "Headers"), h("table.plainlines.mono", { "aria-label": "Headers" }, h("tbody", null,
    rows.map(([name, value]) => h("tr", null, h("th", { scope: "row" }, name), h("td", null, value))))));
}

function headerText(value) {
  if (value === null) {
    return "null";
  }
  return typeof value === "string" ? value : `${value.value} (${value.encoding})`;
}

export function valueParts(message) {
  if (message.value === null || message.value === undefined) {
    return [h("p.muted", "No value: a tombstone.")];
  }
  const parts = [];
  if (message.decoded?.json !== undefined) {
    const { schema_id: id, type, subject } = message.decoded;
    parts.push(h("h3", null, `Value by ${type} schema ${id} `, subject ? link(subject, to("schemas", subject)) : ""), h("pre", { tabindex: "0", "aria-label": "Decoded value" }, indentJson(message.decoded.json).slice(0, SHOWN_CHARS_MAX)));
  } else if (message.decoded?.error) {
    parts.push(h("p.muted", `Not decoded: ${message.decoded.error}`));
  }
  const text = message.encoding === "base64" ? message.value : indentJson(message.value);
  const raw = h("pre", { tabindex: "0", "aria-label": "Value" }, text.slice(0, SHOWN_CHARS_MAX));
  parts.push(parts.length > 1 ? h("details", null, h("summary", "As it is stored"), raw) : h("h3", "Value"), ...(parts.length > 1 ? [] : [raw]));
  if (text.length > SHOWN_CHARS_MAX) {
    parts.push(h("p.muted", `Cut here; the whole value has ${count(text.length)} characters.`));
  }
  const size = message.encoding === "base64" ? atob(message.value).length : new TextEncoder().encode(message.value).length;
  parts.push(h("p.muted", `${bytes(size)}${message.encoding === "base64" ? ", shown as base64" : ""}`));
  return parts;
}
