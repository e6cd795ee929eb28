// Finds topics, groups, subjects and rooms by name.

import { call } from "./api.js";
import { $, h, paused, put } from "./dom.js";
import { ROOMS } from "./rooms.js";
import { to } from "./ui.js";

const SHOWN_MAX = 30;
const KNOWN_MS = 10_000;

let known = [];
let knownAt = -KNOWN_MS;

async function learn() {
  if (performance.now() - knownAt < KNOWN_MS) {
    return;
  }
  knownAt = performance.now();
  const [topics, groups, subjects] = (await Promise.allSettled([call("GET /topics"), call("GET /groups"), call("GET /subjects")])).map((one) => one.value);
  known = [
    ...ROOMS.map((one) => ({ kind: "room", name: one.title, href: `#/${one.path}` })),
    ...(topics?.topics ?? []).map((one) => ({ kind: "topic", name: one.name, href: to("topics", one.name) })),
    ...(groups?.groups ?? []).map((one) => ({ kind: "group", name: one.group, href: to("groups", one.group) })),
    ...(subjects ?? []).map((name) => ({ kind: "subject", name, href: to("schemas", name) })),
  ];
}

function show() {
  const text = $("find").value.trim().toLowerCase();
  const trace = /^[0-9a-f]{32}$/.test(text) ? [{ kind: "trace", name: text, href: to("traces", text) }] : [];
  const found = text ? [...trace, ...known.filter((one) => one.name.toLowerCase().includes(text))].slice(0, SHOWN_MAX) : [];
  put($("found"), found.map((one, at) => h("li", { role: "option", id: `found-${at}`, "aria-selected": String(at === 0), "data-href": one.href,
    onmousedown: (event) => { event.preventDefault(); go(one.href); } }, h("span", one.name), h("span.muted", one.kind))));
  $("found").hidden = !found.length;
  $("find").setAttribute("aria-expanded", String(found.length > 0));
  mark(0);
}

function mark(at) {
  const all = [...$("found").children];
  all.forEach((one, place) => one.setAttribute("aria-selected", String(place === at)));
  all[at]?.scrollIntoView({ block: "nearest" });
  if (all[at]) {
    $("find").setAttribute("aria-activedescendant", all[at].id);
  } else {
    $("find").removeAttribute("aria-activedescendant");
  }
}

function go(href) {
  $("find").value = "";
  $("found").hidden = true;
  $("find").setAttribute("aria-expanded", "false");
  $("find").blur();
  location.hash = href;
}

export function startFinder() {
  const find = $("find");
  find.addEventListener("focus", () => learn().then(show));
  find.addEventListener("blur", () => { $("found").hidden = true; find.setAttribute("aria-expanded", "false"); });
  find.addEventListener("input", paused(() => learn().then(show), 60));
  find.addEventListener("keydown", (event) => {
    const all = [...$("found").children];
    const at = all.findIndex((one) => one.getAttribute("aria-selected") === "true");
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      mark((at + (event.key === "ArrowDown" ? 1 : -1) + all.length) % (all.length || 1));
    } else if (event.key === "Enter" && all[at]) {
      event.preventDefault();
      go(all[at].dataset.href);
    }
  });
}
