// The list of messages: pages of the past, or the live tail.

import { $, make, setText } from "./dom.js";
import { count, counted, timeField } from "./format.js";
import { messageRow } from "./message.js";
import { edge, lookAt, readAfter, readBefore, readFrom } from "./pages.js";
import { startTail, stopTail } from "./tail.js";
import { trying } from "./toast.js";

const ROWS_MAX = 500;
const HOUR_MS = 3_600_000;
const NEAR_END_PX = 40;

let topic = null;
let page = null;
let pending = 0; // messages behind the page
let older = false; // are there messages before it
let tailed = null; // how many came since the tail began; null if it is off

const form = () => $("browse").elements;
const limit = () => Number(form().limit.value);
const chosen = () => (form().partition.value === "" ? null : Number(form().partition.value));

// --- life -------------------------------------------------------------------------------------------------------

export async function openMessages(name) {
  topic = name;
  form().from.value = "latest";
  form().partition.value = "";
  showTimeField();
  await trying(() => readChosen());
}

export function leaveMessages() {
  tailOff();
  topic = null;
  page = null;
  $("messages").replaceChildren();
}

/** The topic was looked at again: are there messages behind the page? */
export function showPending(view) {
  pending = 0;
  older = false;
  for (const one of view.partitions.filter((shown) => page?.ends.has(shown.partition))) {
    pending += Math.max(0, one.high_watermark - page.ends.get(one.partition));
    older ||= page.starts.get(one.partition) > one.start_offset;
  }
  showPager();
}

/** Something was published here: shows it, unless the person reads elsewhere. */
export async function showPublished() {
  if (tailed === null && page !== null && pending === 0) {
    form().from.value = "latest";
    showTimeField();
    await readChosen();
  }
}

// --- pages ------------------------------------------------------------------------------------------------------

const readers = {
  earliest: (partitions) => readAfter(topic, partitions, edge(partitions, "start_offset"), limit()),
  latest: (partitions) => readBefore(topic, partitions, edge(partitions, "high_watermark"), limit()),
  time: (partitions) => readFrom(topic, partitions, new Date(form().time.value).getTime(), limit()),
  older: (partitions) => readBefore(topic, partitions, page.starts, limit()),
  newer: (partitions) => readAfter(topic, partitions, page.ends, limit()),
};

const readChosen = () => show(form().from.value);

async function show(what) {
  tailOff();
  const asked = topic;
  const turning = page !== null && (what === "older" || what === "newer");
  const wanted = (partition) => (turning ? page.ends.has(partition) : chosen() === null || chosen() === partition);
  const partitions = await lookAt(asked, wanted);
  const found = await readers[what](partitions);
  if (asked !== topic) {
    return;
  }
  // Beyond the edge there is nothing to turn to: the page that is shown stays.
  if (!found.messages.length && turning) {
    page = what === "older" ? { ...page, starts: edge(partitions, "start_offset") } : { ...page, ends: found.ends };
  } else {
    page = found;
    showRows(what === "latest" || what === "older");
  }
  showPending({ partitions });
  showPageText();
}

function showRows(fromEnd) {
  const list = $("messages");
  list.replaceChildren(...page.messages.map(messageRow));
  if (!page.messages.length) {
    list.append(make("p", "empty", "No messages here."));
  }
  list.scrollTop = fromEnd ? list.scrollHeight : 0;
}

function showPager() {
  $("older").disabled = tailed !== null || !older;
  $("newer").disabled = tailed !== null || pending === 0;
  setText($("newer"), pending && tailed === null ? `Newer (${count(pending)})` : "Newer");
}

function showPageText() {
  const shown = $("messages").querySelectorAll("details").length;
  setText($("page-text"), shown ? `${counted(shown, "message")} shown, oldest first` : "\u00a0");
}

function showTimeField() {
  const isTime = form().from.value === "time";
  $("time-field").hidden = !isTime;
  form().time.required = isTime;
  if (isTime && !form().time.value) {
    form().time.value = timeField(Date.now() - HOUR_MS);
  }
}

// --- tail -------------------------------------------------------------------------------------------------------

// The tail begins where the newest page ends, so nothing falls between.
async function tailOn() {
  form().from.value = "latest";
  showTimeField();
  const asked = topic;
  await show("latest");
  if (asked !== topic) {
    return;
  }
  tailed = 0;
  showTail("waiting");
  startTail(topic, chosen(), page.ends, { onMessages: append, onState: showTail, onEnd: tailOff });
}

function tailOff() {
  if (tailed === null) {
    return;
  }
  tailed = null;
  stopTail();
  showTail("");
  showPager();
}

function append(messages, received) {
  const list = $("messages");
  const reading = list.querySelector("details[open]") !== null;
  const atEnd = list.scrollHeight - list.scrollTop - list.clientHeight < NEAR_END_PX;
  list.querySelector(".empty")?.remove();
  list.append(...messages.map(messageRow));
  while (list.children.length > ROWS_MAX) {
    dropFirst(list.firstElementChild);
  }
  if (atEnd && !reading) {
    list.scrollTop = list.scrollHeight;
  }
  for (const message of messages) {
    page.ends.set(message.partition, message.offset + 1);
  }
  tailed += received;
  showTail("live");
  showPageText();
}

// What leaves the list is again to be found under "Older".
function dropFirst(row) {
  const [partition, offset] = row.dataset.place.split(":").map(Number);
  page.starts.set(partition, offset + 1);
  row.remove();
}

function showTail(state) {
  const on = tailed !== null;
  $("tail").setAttribute("aria-pressed", String(on));
  setText($("tail-text"), on ? `${state}, ${count(tailed)} received` : "");
  showPager();
}

// --- controls ---------------------------------------------------------------------------------------------------

export function startMessages() {
  $("browse").addEventListener("submit", (event) => {
    event.preventDefault();
    trying(readChosen, $("browse"));
  });
  $("browse").addEventListener("change", () => {
    showTimeField();
    $("browse").requestSubmit();
  });
  $("older").addEventListener("click", () => trying(() => show("older")));
  $("newer").addEventListener("click", () => trying(() => show("newer")));
  $("tail").addEventListener("click", () => trying(async () => (tailed === null ? tailOn() : tailOff())));
}
