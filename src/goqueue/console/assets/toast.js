// Short notes in the corner: errors stay longer, the same one is shown once.

import { Problem, Unreachable } from "./api.js";
import { $, make } from "./dom.js";

const GOOD_MS = 4_000;
const BAD_MS = 12_000;
const AT_ONCE_MAX = 4;

export function tell(text) {
  show("good", text, text, [], GOOD_MS);
}

/** Shows an error; one that nobody foresaw also goes to the browser's console. */
export function complain(error) {
  if (error instanceof Problem) {
    const more = error.field ? [make("span", "chip", error.field)] : [];
    show("bad", error.message, `${error.code} ${error.message}`, [make("span", "chip", error.code), ...more], BAD_MS);
    return;
  }
  if (!(error instanceof Unreachable)) {
    console.error(error);
  }
  show("bad", error.message, error.message, [], BAD_MS);
}

/** Runs an action of the person's, which ends older complaints. What goes wrong is shown, and marked in `form`. */
export async function trying(action, form = null) {
  document.querySelectorAll(".toast.bad").forEach((toast) => toast.remove());
  form?.querySelectorAll("[aria-invalid]").forEach((input) => input.removeAttribute("aria-invalid"));
  try {
    return await action();
  } catch (error) {
    complain(error);
    mark(form, error.field);
    return undefined;
  }
}

// A field such as messages[0].headers.a or config.retention.ms marks the input for its first part.
function mark(form, field) {
  if (!form || !field) {
    return;
  }
  const name = field.replace(/^messages\[\d+\]\.?/, "").split(/[.[]/)[0];
  const input = form.querySelector(`[data-field="${CSS.escape(name)}"]`);
  input?.setAttribute("aria-invalid", "true");
  input?.focus();
}

// Only what is inside an open dialog can be seen and clicked.
function host() {
  const toasts = $("toasts");
  const parent = document.querySelector("dialog[open]") ?? document.body;
  if (toasts.parentElement !== parent) {
    parent.append(toasts);
  }
  return toasts;
}

document.addEventListener("close", host, true);

function show(kind, text, key, chips, ms) {
  const toasts = host();
  [...toasts.children].filter((toast) => toast.dataset.key === key).forEach((toast) => toast.remove());
  const close = make("button", "close", "×");
  close.type = "button";
  close.setAttribute("aria-label", "Close");
  const toast = make("div", `toast ${kind}`, make("div", "", make("p", "", text), ...chips), close);
  toast.dataset.key = key;
  close.addEventListener("click", () => toast.remove());
  toasts.append(toast);
  while (toasts.children.length > AT_ONCE_MAX) {
    toasts.firstElementChild.remove();
  }
  setTimeout(() => toast.remove(), ms);
}
