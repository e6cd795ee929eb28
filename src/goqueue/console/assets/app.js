// The page's start: rooms by their addresses, one timer for all looks at the node, the state of the node in the head.

import { call, Problem, readOnlyReason, state, Unreachable } from "./api.js";
import { $, h, put, setText } from "./dom.js";
import { startFinder } from "./finder.js";
import { startKeys } from "./keys.js";
import { askLogin, startSession } from "./login.js";
import { isReadOnlyNode } from "./mode.js";
import { ROOMS } from "./rooms.js";
import { complain, empty, forgetComplaints } from "./ui.js";

const LOOK_MS = 2_000;
const STATUS_EVERY = 5; // looks

let open = null; // the room that is shown: {refresh, close}
let turn = 0; // counts changes of rooms, so that a late answer does not fill the next one
let looks = 0;

function place() {
  const [path, query = ""] = location.hash.replace(/^#\/?/, "").split("?");
  const parts = path.split("/").filter(Boolean).map(decodeURIComponent);
  return { parts, query: new URLSearchParams(query) };
}

async function enter() {
  if (location.hash === "#main") {
    return;
  }
  const { parts, query } = place();
  const room = ROOMS.find((one) => one.path === (parts[0] ?? ""));
  turn += 1;
  const mine = turn;
  open?.close?.();
  open = null;
  forgetComplaints();
  $("nav").classList.remove("open");
  $("nav").querySelectorAll("a").forEach((one) => one.toggleAttribute("aria-current", one.dataset.room === room?.path));
  $("nav").querySelector("[aria-current]")?.setAttribute("aria-current", "page");
  document.title = `${[...parts].reverse().join(" · ") || "Overview"} · GoQueue`;
  if (!room) {
    put($("room"), empty("There is no such room.", "The rooms are listed at the left."));
    return;
  }
  try {
    const entered = await room.open({ parts: parts.slice(1), query, isOpen: () => mine === turn });
    if (mine !== turn) {
      entered?.close?.();
      return;
    }
    open = entered;
    put($("room"), entered.content);
    await entered.refresh?.();
  } catch (error) {
    if (mine === turn) {
      failed(error);
    }
  }
  if (mine === turn) {
    const heading = $("room").querySelector("h1");
    if (document.activeElement === document.body || document.activeElement?.closest("#nav")) {
      heading?.focus({ preventScroll: true });
    }
    scrollTo(0, 0);
  }
}

function failed(error) {
  if (error.status === 401) {
    put($("room"), empty("Log in to see this.", "This node wants to know who asks."));
  } else if (error instanceof Problem && [400, 403, 404].includes(error.status)) {
    put($("room"), empty(error.status === 403 ? "You may not see this." : "It is not there.", error.message));
  } else if (error instanceof Unreachable) {
    lost();
    if (!$("room").firstChild) {
      put($("room"), empty("The node does not answer.", "The page tries again by itself."));
    }
  } else {
    complain(error);
  }
}

function lost() {
  document.body.classList.add("lost");
  $("status").className = "pill bad";
  setText($("status"), "no answer");
}

async function status() {
  const ready = await call("GET /readyz", { query: { verbose: "true" } });
  const wrong = Object.values(ready.checks ?? {}).filter((one) => !one.ok);
  document.body.classList.remove("lost");
  $("status").className = `pill ${wrong.length ? "bad" : "good"}`;
  $("status").title = wrong.map((one) => one.detail).join("; ");
  setText($("status"), wrong.length ? "not ready" : "ready");
}

async function look() {
  const mine = turn;
  const isLost = document.body.classList.contains("lost");
  try {
    if (looks % STATUS_EVERY === 0 || isLost) {
      await status();
    }
    if (isLost && open === null) {
      await enter();
    }
    if (looks > 0 && open?.refresh && !(state.needsLogin)) {
      await open.refresh();
    }
  } catch (error) {
    if (error instanceof Unreachable) {
      lost();
    } else if (mine === turn && error.status !== 401 && error.name !== "AbortError") {
      if (error.status === 404) {
        failed(error);
        open?.close?.();
        open = null;
      } else {
        complain(error);
      }
    }
  }
  looks += 1;
}

let timer = 0;

async function keepLooking() {
  clearTimeout(timer);
  if (!document.hidden) {
    await look();
    timer = setTimeout(keepLooking, LOOK_MS);
  }
}

function navigation() {
  let section = "";
  for (const one of ROOMS) {
    if (one.section !== section) {
      section = one.section;
      $("nav").append(h("h2", section));
    }
    $("nav").append(h("a", { href: `#/${one.path}`, "data-room": one.path }, one.title, h("kbd", { "aria-hidden": "true" }, `g ${one.key}`)));
  }
  $("menu").addEventListener("click", () => {
    $("nav").style.top = `${document.querySelector("header").offsetHeight}px`; // the head has one line or more
    $("menu").setAttribute("aria-expanded", String($("nav").classList.toggle("open")));
  });
}

function preferences() {
  const theme = () => localStorage.getItem("goqueue.theme") ?? "auto";
  const show = () => {
    document.documentElement.dataset.theme = theme();
    setText($("theme"), { auto: "Theme: auto", light: "Theme: light", dark: "Theme: dark" }[theme()]);
    state.isReadOnly = isReadOnlyNode || localStorage.getItem("goqueue.readonly") === "on";
    $("readonly").setAttribute("aria-pressed", String(state.isReadOnly));
    document.body.classList.toggle("readonly", state.isReadOnly);
  };
  $("theme").addEventListener("click", () => {
    localStorage.setItem("goqueue.theme", { auto: "light", light: "dark", dark: "auto" }[theme()]);
    show();
  });
  if (isReadOnlyNode) {
    $("readonly").disabled = true;
    $("readonly").title = readOnlyReason();
  }
  $("readonly").addEventListener("click", () => {
    localStorage.setItem("goqueue.readonly", state.isReadOnly ? "off" : "on");
    show();
  });
  show();
}

navigation();
preferences();
startFinder();
startKeys();
state.onLogin = (code) => askLogin(code, enter);
addEventListener("hashchange", enter);
document.addEventListener("visibilitychange", keepLooking);
$("skip").addEventListener("click", (event) => {
  event.preventDefault();
  $("main").focus();
});
startSession().then(enter).then(keepLooking);
