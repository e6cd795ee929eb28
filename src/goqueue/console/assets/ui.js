// Parts that every room uses: notices, dialogs, forms, empty states, tabs.

import { Problem, Unreachable } from "./api.js";
import { $, h, put } from "./dom.js";

const NOTICE_MS = 8_000;
const ACTION_MS = 30_000; // one that offers a next step stays until that can be read and taken

/** A line above the room. It is in the page's flow: nothing is ever covered by it. */
export function notify(text, kind = "good", action = null) {
  const close = h("button.plain", { type: "button", "aria-label": "Dismiss", onclick: () => line.remove() }, "×");
  const line = h("p.notice", { class: kind, role: kind === "bad" ? "alert" : null }, h("span", text), action, close);
  $("notices").replaceChildren(line, ...[...$("notices").children].slice(0, 2));
  if (kind !== "bad") {
    setTimeout(() => line.remove(), action ? ACTION_MS : NOTICE_MS);
  }
}

/** What went wrong in a room is no news in the next one. */
export function forgetComplaints() {
  $("notices").querySelectorAll(".bad").forEach((one) => one.remove());
}

export function complain(error) {
  if (error.name === "AbortError") {
    return;
  }
  if (!(error instanceof Problem || error instanceof Unreachable)) {
    console.error(error);
  }
  notify(error.code ? `${error.message} (${error.code})` : error.message, "bad");
}

/** A button that works once at a time and tells what went wrong. */
export function button(label, action, kind = "") {
  const node = h("button", { type: "button", class: kind }, label);
  node.addEventListener("click", async () => {
    node.disabled = true;
    try {
      await action(node);
    } catch (error) {
      complain(error);
    } finally {
      node.disabled = false;
    }
  });
  return node;
}

/** One that changes the node: hidden in read-only mode. */
export const write = (label, action, kind = "") => button(label, action, `write ${kind}`);

export const link = (label, href, kind = "") => h("a", { class: kind, href }, label);

/** A hash route. Every part is encoded: names may hold anything. */
export function to(...parts) {
  const query = typeof parts.at(-1) === "object" ? parts.pop() : {};
  const given = Object.entries(query).filter(([, value]) => value !== undefined && value !== null && value !== "");
  const asked = new URLSearchParams(given).toString();
  return `#/${parts.map((one) => encodeURIComponent(one)).join("/")}${asked ? `?${asked}` : ""}`;
}

/** The room's head: where one is, and what can be done here. */
export function head(title, { up, about, actions = [] } = {}) {
  return h("div.head", null,
    h("div", null, up ? h("a.up", { href: up[1] }, `${up[0]} /`) : null, h("h1", { tabindex: "-1" }, title), about ? h("p.muted", about) : null),
    h("div.actions", null, actions));
}

export const empty = (lead, text, ...more) => h("div.empty", null, h("p.lead", lead), text ? h("p", text) : null, ...more);

export const chip = (text, kind = "") => h("span.chip", { class: kind }, text);

/** Name and value pairs. A value takes the width that it needs. */
export function facts(pairs) {
  const shown = pairs.filter(([, value]) => value !== null && value !== undefined && value !== "");
  return h("dl.facts", null, shown.map(([name, value]) => h("div", null, h("dt", name), h("dd", null, value))));
}

export function card(title, ...content) {
  return h("section.card", null, title ? h("h2", title) : null, ...content);
}

export function tabs(label, current, pairs) {
  return h("nav.tabs", { "aria-label": label },
    pairs.map(([name, href]) => h("a", { href, "aria-current": name === current ? "page" : null }, name)));
}

let count = 0;

/** A labelled field. `one` is {name, label, type, value, hint, options, required, rows, placeholder}. */
export function field(one) {
  const id = `f${(count += 1)}`;
  const about = one.hint ? `${id}-hint` : null;
  const common = { id, name: one.name, required: one.required, placeholder: one.placeholder, "aria-describedby": about };
  let input;
  if (one.type === "checkbox") {
    input = h("input", { ...common, type: "checkbox", checked: Boolean(one.value) });
    return h("div.field.tick", null, input, h("label", { for: id }, one.label), one.hint ? h("p.hint", { id: about }, one.hint) : null);
  }
  if (one.options) {
    input = h("select", common, one.options.map((option) => {
      const [value, label] = Array.isArray(option) ? option : [option, option];
      return h("option", { value, selected: value === one.value }, label);
    }));
  } else if (one.type === "textarea") {
    input = h("textarea", { ...common, rows: one.rows ?? 6, spellcheck: "false", value: one.value ?? "" });
  } else {
    input = h("input", { ...common, type: one.type ?? "text", step: one.step, min: one.min, max: one.max, autocomplete: one.autocomplete ?? "off", spellcheck: "false", value: one.value ?? "" });
  }
  if (one.onchange) {
    input.addEventListener("change", () => one.onchange(input.value));
  }
  return h("div.field", null, h("label", { for: id }, one.label), input, one.hint ? h("p.hint", { id: about }, one.hint) : null);
}

/** What a form holds, by name; ticks are booleans. */
export function values(form) {
  const found = {};
  for (const input of form.elements) {
    if (input.name) {
      found[input.name] = input.type === "checkbox" ? input.checked : input.value;
    }
  }
  return found;
}

/** A form in a dialog. `submit` gets the values; what it throws is shown beside the field. `preview` fills a place first. */
export function ask({ title, about, fields = [], submitLabel = "Save", danger = false, preview, submit, content, changes = true }) {
  const told = h("div.told", { role: "alert" });
  const shown = h("div.preview", { "aria-live": "polite" });
  const go = h("button.primary", { type: "submit", class: `${danger ? "danger" : ""} ${changes ? "write" : ""}` }, submitLabel);
  const dialog = h("dialog", { "aria-label": title });
  const cancel = h("button", { type: "button", onclick: () => dialog.close() }, "Cancel");
  const look = preview ? h("button", { type: "button", onclick: () => run(async () => put(shown, await preview(values(form)))) }, "Preview") : null;
  const form = h("form", { method: "dialog" }, h("h2", title), about ? h("p.muted", about) : null,
    fields.map(field), content, shown, told, h("div.end", null, cancel, look, go));
  async function run(action) {
    put(told);
    form.querySelectorAll("[aria-invalid]").forEach((one) => one.removeAttribute("aria-invalid"));
    go.disabled = true;
    try {
      return await action();
    } catch (error) {
      put(told, error.message);
      const wrong = error.field && form.elements.namedItem(String(error.field).replace(/.*\./, ""));
      if (wrong instanceof HTMLElement) {
        wrong.setAttribute("aria-invalid", "true");
        wrong.focus();
      }
      return false;
    } finally {
      go.disabled = false;
    }
  }
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    if ((await run(async () => (await submit(values(form), shown)) !== false)) === true) {
      dialog.close();
    }
  });
  dialog.append(form);
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
  return dialog;
}

/** Before something is gone for ever. */
export const confirm = (title, about, submitLabel, submit) => ask({ title, about, submitLabel, danger: true, submit });
