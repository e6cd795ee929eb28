// The reference of REST's routes, made from the node's own description, with a form to try each.

import { logIn, state } from "./api.js";
import { $, copy, h, paused, put } from "./dom.js";
import { indentJson } from "./format.js";
import { isReadOnlyNode } from "./mode.js";
import { ask, button, field, notify, values } from "./ui.js";

const SHOWN_CHARS_MAX = 20_000;
const STREAM_MS = 3_000; // a stream is looked at for so long

document.documentElement.dataset.theme = localStorage.getItem("goqueue.theme") ?? "auto"; // as chosen in the console

const document_ = await (await fetch("openapi.json")).json();

function routes() {
  const found = new Map();
  for (const [path, methods] of Object.entries(document_.paths)) {
    for (const [method, one] of Object.entries(methods)) {
      const tag = one.tags[0];
      found.set(tag, [...(found.get(tag) ?? []), { path, method: method.toUpperCase(), ...one }]);
    }
  }
  return found;
}

function show(filter = "") {
  const wanted = filter.toLowerCase();
  const parts = [];
  const links = [];
  for (const [tag, list] of routes()) {
    const fits = list.filter((one) => `${one.method} ${one.path} ${one.summary}`.toLowerCase().includes(wanted));
    if (fits.length) {
      const id = `part-${tag.replace(/\W+/g, "-")}`;
      links.push(h("a", { href: `#${id}` }, tag, h("span.muted", String(fits.length))));
      parts.push(h("h2", { id }, tag), ...fits.map(routeNode));
    }
  }
  put($("nav"), links);
  put($("room"), parts.length ? parts : h("p.muted", "No route fits."));
}

function routeNode(one) {
  const node = h("details.route", { id: `${one.method} ${one.path}` },
    h("summary", null, h("span.method", { class: one.method.toLowerCase() }, one.method), h("code", one.path), h("span.muted", one.summary)));
  node.addEventListener("toggle", () => {
    if (node.open && node.children.length === 1) {
      node.append(inside(one));
      history.replaceState(null, "", `#${encodeURIComponent(node.id)}`);
    }
  });
  return node;
}

function inside(one) {
  const body = one.requestBody && Object.values(one.requestBody.content)[0];
  const [status, answer] = Object.entries(one.responses)[0];
  const schema = answer.content && Object.values(answer.content)[0].schema;
  return h("div.inside", null,
    (one.description ?? "").split("\n\n").filter(Boolean).map((text) => h("p", text)),
    one.parameters.length ? h("div.scroll", null, h("table.plainlines", { "aria-label": "Parameters" }, h("thead", null, h("tr", null, ["Parameter", "In", "Type", "Meaning"].map((name) => h("th", { scope: "col" }, name)))),
      h("tbody", null, one.parameters.map((given) => h("tr", null, h("td", null, h("code", given.name)), h("td", given.in), h("td", given.schema.type), h("td", given.description ?? "")))))) : null,
    tryIt(one, body),
    body ? h("details", null, h("summary", "Body, as JSON schema"), pre(resolved(body.schema))) : null,
    schema ? h("details", null, h("summary", `Answer ${status}, as JSON schema`), pre(resolved(schema))) : null);
}

const pre = (value) => h("pre", { tabindex: "0" }, JSON.stringify(value, null, 2));

function resolved(schema) {
  const name = schema.$ref?.split("/").at(-1);
  return name ? document_.components.schemas[name] : schema;
}

function tryIt(one, body) {
  const answer = h("div", { role: "status" });
  const form = h("form.tryit", { "aria-label": `Try ${one.method} ${one.path}` }, h("h3", "Try it"),
    h("div.params", null, one.parameters.map((given) => field({ name: given.name, label: given.name, required: given.in === "path" }))),
    body ? field({ name: "the body", label: "Body", type: "textarea", rows: 6, value: JSON.stringify(body.example ?? {}, null, 2) }) : null);
  const send = h("button.primary", { type: "submit" }, one.method === "GET" ? "Send" : `Send (this ${one.method === "DELETE" ? "deletes" : "may change things"})`);
  const mayChange = one.method !== "GET" && isReadOnlyNode;
  form.append(h("div.actions", null, mayChange ? null : send, button("Copy as curl", async () => { await copy(command(one, values(form))); notify("Copied."); })), answer);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (mayChange) {
      return;
    }
    send.disabled = true;
    try {
      await run(one, values(form), answer);
    } catch (error) {
      put(answer, h("p", `No answer: ${error.message}`));
    } finally {
      send.disabled = false;
    }
  });
  return form;
}

function address(one, given) {
  const path = one.path.slice(1).replace(/{(\w+)}/g, (_, name) => encodeURIComponent(given[name]));
  const asked = one.parameters.filter((param) => param.in === "query" && given[param.name] !== "").map((param) => [param.name, given[param.name]]);
  const query = new URLSearchParams(asked).toString();
  return query ? `${path}?${query}` : path;
}

const quoted = (text) => `'${text.replace(/'/g, "'\\''")}'`;

function command(one, given) {
  const url = new URL(address(one, given), document.baseURI).href;
  const body = given["the body"] === undefined ? "" : ` -H 'Content-Type: application/json' -d ${quoted(given["the body"])}`;
  return `curl -s${one.method === "GET" ? "" : ` -X ${one.method}`} ${quoted(url)}${body}`;
}

async function run(one, given, answer) {
  const stopping = new AbortController();
  const timer = setTimeout(() => stopping.abort(), one.path.endsWith("/tail") ? STREAM_MS : 30_000);
  const headers = { ...(state.header ? { Authorization: state.header } : {}), ...(given["the body"] === undefined ? {} : { "Content-Type": "application/json" }) };
  const began = performance.now();
  const response = await fetch(address(one, given), { method: one.method, headers, body: given["the body"], credentials: "omit", cache: "no-store", signal: stopping.signal });
  let text = "";
  const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
  try {
    for (let part = await reader?.read(); part && !part.done && text.length < SHOWN_CHARS_MAX; part = await reader.read()) {
      text += part.value;
    }
  } catch (error) {
    if (error.name !== "AbortError") {
      throw error;
    }
  }
  clearTimeout(timer);
  stopping.abort();
  put(answer, h("p", null, h("b", `${response.status} ${response.statusText}`), h("span.muted", ` in ${(performance.now() - began).toFixed(0)} ms, ${response.headers.get("Content-Type") ?? "no content"}`)),
    text ? h("pre", { tabindex: "0", "aria-label": "Answer" }, indentJson(text.trim()).slice(0, SHOWN_CHARS_MAX)) : null);
}

$("filter").addEventListener("input", paused(() => show($("filter").value), 80));
$("login").addEventListener("click", () => ask({
  title: "Log in", changes: false, submitLabel: "Keep it", about: "For nodes that ask who you are. Kept for this tab until it is closed.", fields: [{ name: "token", label: "API key", type: "password" }],
  submit: async (given) => logIn(given.token ? `Bearer ${given.token.trim()}` : null, true),
}));
document.addEventListener("keydown", (event) => {
  if (event.key === "/" && !event.target.closest("input, textarea, select")) {
    event.preventDefault();
    $("filter").focus();
  }
});
show();
const linked = document.getElementById(decodeURIComponent(location.hash.slice(1)));
if (linked) {
  linked.open = linked instanceof HTMLDetailsElement;
  linked.scrollIntoView();
}
