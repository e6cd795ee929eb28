// The keyboard: "/" finds, "g" and a letter goes to a room, "?" shows the keys.

import { $, h } from "./dom.js";
import { ROOMS } from "./rooms.js";

const GO_MS = 1_500;

let went = 0;

export function startKeys() {
  $("keys").addEventListener("click", showKeys);
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) {
      return;
    }
    if (event.target.closest("input:not([type=checkbox]), textarea, select")) {
      if (event.key === "Escape") {
        event.target.blur();
      }
      return;
    }
    if (event.timeStamp - went < GO_MS) {
      went = 0;
      const room = ROOMS.find((one) => one.key === event.key);
      if (room) {
        event.preventDefault();
        location.hash = `#/${room.path}`;
        return;
      }
    }
    if (event.key === "g") {
      went = event.timeStamp;
    } else if (event.key === "/") {
      event.preventDefault();
      $("find").focus();
      $("find").select();
    } else if (event.key === "f") {
      const filter = document.querySelector("#room [data-filter]");
      if (filter) {
        event.preventDefault();
        filter.focus();
      }
    } else if (event.key === "?") {
      showKeys();
    }
  });
}

function showKeys() {
  const rows = [["/", "find anything"], ["f", "filter this room's list"], ["↑ ↓", "move in a table"], ["Enter", "open a row"], ["Esc", "leave a field or close a dialog"], ["?", "these keys"],
    ...ROOMS.map((one) => [`g ${one.key}`, one.title])];
  const close = h("button", { type: "button", onclick: () => dialog.close() }, "Close");
  const dialog = h("dialog.list", { "aria-label": "Keys", onclose: () => dialog.remove() }, h("h2", "Keys"),
    h("div.keys", null, rows.map(([key, what]) => [h("kbd", key), h("span", what)])), h("div.end", null, close));
  document.body.append(dialog);
  dialog.showModal();
}
