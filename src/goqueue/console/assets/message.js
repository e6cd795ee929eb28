// One message as a line that opens.

import { clone, make, setText } from "./dom.js";
import { bytes, count, indentJson, time } from "./format.js";

const PREVIEW_CHARS = 400;
const SHOWN_CHARS_MAX = 200_000;

export function messageRow(message) {
  const row = clone("message-row");
  const fill = (part, text) => setText(row.querySelector(`.${part}`), text);
  fill("when", time(message.timestamp));
  row.dataset.place = `${message.partition}:${message.offset}`;
  fill("place", row.dataset.place);
  fill("key", message.key === null ? "" : message.key.slice(0, PREVIEW_CHARS));
  if (message.value === null) {
    row.querySelector(".value").append(make("span", "chip", "tombstone"));
  } else {
    row.querySelector(".value").append(message.value.slice(0, PREVIEW_CHARS));
  }
  if (message.encoding === "base64") {
    row.querySelector(".value").prepend(make("span", "chip", "binary"), " ");
  }
  if (message.priority !== "normal") {
    row.querySelector(".value").prepend(make("span", `chip priority ${message.priority}`, message.priority), " ");
  }
  row.addEventListener("toggle", () => showBody(row, message));
  return row;
}

// Only what is opened is built.
function showBody(row, message) {
  const body = row.querySelector(".body");
  if (row.open && !body.firstChild) {
    body.append(facts(message), ...value(message));
    row.scrollIntoView({ block: "nearest" });
  }
}

function facts(message) {
  const list = make("dl", "facts-list");
  const add = (name, text) => list.append(make("div", "", make("dt", "", name), make("dd", "", text)));
  add("partition", String(message.partition));
  add("offset", count(message.offset));
  add("time", time(message.timestamp));
  add("priority", message.priority);
  add("key", message.key === null ? "none" : message.key + (message.key_encoding === "base64" ? " (base64)" : ""));
  for (const [name, values] of Object.entries(message.headers)) {
    for (const one of Array.isArray(values) ? values : [values]) {
      add(`header ${name}`, headerText(one));
    }
  }
  return list;
}

function headerText(value) {
  if (value === null) {
    return "null";
  }
  return typeof value === "string" ? value : `${value.value} (${value.encoding})`;
}

function value(message) {
  if (message.value === null) {
    return [make("p", "muted", "No value: a tombstone.")];
  }
  const text = message.encoding === "base64" ? message.value : indentJson(message.value);
  const shown = [make("pre", "", text.slice(0, SHOWN_CHARS_MAX))];
  if (text.length > SHOWN_CHARS_MAX) {
    shown.push(make("p", "muted", `Cut here; the whole value has ${count(text.length)} characters.`));
  }
  shown.push(make("p", "muted", valueSize(message)));
  return shown;
}

function valueSize(message) {
  if (message.encoding === "base64") {
    return `${bytes(atob(message.value).length)}, shown as base64`;
  }
  return bytes(new TextEncoder().encode(message.value).length);
}
