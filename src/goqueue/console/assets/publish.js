// Sending messages: the dialog, and a message as a command or as code.

import { call } from "./api.js";
import { time, timeField } from "./format.js";
import { ask, link, notify, to } from "./ui.js";

/** A W3C trace context that asks to be recorded. */
export function traceparent() {
  const random = (size) => [...crypto.getRandomValues(new Uint8Array(size))].map((one) => one.toString(16).padStart(2, "0")).join("");
  return `00-${random(16)}-${random(8)}-01`;
}

/** The trace that a message belongs to, or null. */
export function traceOf(headers) {
  const given = headers?.traceparent;
  const match = typeof given === "string" ? /^00-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}$/.exec(given) : null;
  return match ? match[1] : null;
}

/** "name: value" lines as headers, and back. What is not text is passed through unchanged. */
export function parseHeaders(text) {
  const found = {};
  for (const line of text.split("\n").filter((one) => one.trim())) {
    const at = line.indexOf(":");
    if (at < 1) {
      throw new Error(`A header is “name: value”, not “${line.slice(0, 60)}”.`);
    }
    const [name, given] = [line.slice(0, at).trim(), line.slice(at + 1).trim()];
    const value = /^[[{]/.test(given) ? tryJson(given) : given;
    found[name] = name in found ? [found[name], value].flat() : value;
  }
  return found;
}

function tryJson(text) {
  try {
    const value = JSON.parse(text);
    return Array.isArray(value) || "encoding" in value ? value : text;
  } catch {
    return text;
  }
}

export function headerLines(headers) {
  return Object.entries(headers ?? {}).map(([name, value]) => `${name}: ${typeof value === "string" ? value : JSON.stringify(value)}`).join("\n");
}

/** What is needed to send a message again: its content, not its place. */
export function content(message) {
  const body = { value: message.value };
  const add = (name, value, usual) => (value !== undefined && value !== null && value !== usual ? { [name]: value } : {});
  return { ...body, ...add("key", message.key), ...add("encoding", message.encoding, "text"), ...add("key_encoding", message.key_encoding, "text"),
    ...add("priority", message.priority, "normal"), ...(Object.keys(message.headers ?? {}).length ? { headers: message.headers } : {}) };
}

const quoted = (text) => `'${text.replace(/'/g, "'\\''")}'`;

/** One body for both forms: the words are those of the API. */
export function asCommand(topic, message) {
  const body = JSON.stringify({ messages: [content(message)] });
  return `curl -s ${quoted(new URL(`topics/${encodeURIComponent(topic)}/messages`, document.baseURI).href)} -H 'Content-Type: application/json' -d ${quoted(body)}`;
}

export function asPython(topic, message) {
  const body = JSON.stringify(JSON.stringify({ messages: [content(message)] }));
  return ["import json", "import urllib.request", "",
    `body = ${body}`,
    `request = urllib.request.Request(${JSON.stringify(new URL(`topics/${encodeURIComponent(topic)}/messages`, document.baseURI).href)}, body.encode(), {"Content-Type": "application/json"})`,
    "print(json.load(urllib.request.urlopen(request)))", ""].join("\n");
}

/** Publishes; with a `message`, the same again or changed. */
export function publishDialog(topic, partitions, message = null, after = () => {}) {
  const filled = message ?? {};
  ask({
    title: message ? `Publish again to ${topic}` : `Publish to ${topic}`,
    submitLabel: "Publish",
    fields: [
      { name: "key", label: "Key", value: filled.key ?? "", hint: "Messages with the same key stay in order." },
      { name: "value", label: filled.encoding === "base64" ? "Value (base64)" : "Value", type: "textarea", rows: 7, value: filled.value ?? "" },
      { name: "headers", label: "Headers", type: "textarea", rows: 2, value: headerLines(filled.headers), placeholder: "name: value", hint: "One a line." },
      { name: "priority", label: "Priority", options: ["normal", "critical", "high", "low", "background"], value: filled.priority ?? "normal" },
      { name: "partition", label: "Partition", options: [["", "by key"], ...Array.from({ length: partitions }, (_, one) => [String(one), String(one)])], value: "" },
      { name: "deliverAt", label: "Deliver at", type: "datetime-local", step: 1, hint: `Empty means now (${timeField(Date.now()).replace("T", " ")}).` },
      { name: "trace", label: "Trace it", type: "checkbox", value: !message, hint: "Records every step of this message." },
    ],
    submit: async (given) => {
      const headers = parseHeaders(given.headers);
      if (given.trace) {
        headers.traceparent = traceparent();
      }
      const body = content({ ...filled, headers, priority: given.priority, value: given.value, key: given.key === "" ? null : given.key });
      if (given.partition !== "") {
        body.partition = Number(given.partition);
      }
      if (given.deliverAt) {
        body.deliverAt = new Date(given.deliverAt).getTime();
      }
      const { results } = await call("POST /topics/{topic}/messages", { params: { topic }, body: { messages: [body] } });
      const [one] = results;
      const waits = one.deliverAt !== undefined;
      const href = waits ? to("delayed", topic) : to("topics", topic, "messages", { partition: one.partition, offset: one.offset, open: `${one.partition}:${one.offset}` });
      notify(waits ? `It waits until ${time(Date.parse(one.deliverAt))}.` : `Stored in partition ${one.partition} at offset ${one.offset}.`, "good", link("Show it", href));
      after(one);
    },
  });
}

