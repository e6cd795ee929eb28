// The page's start: which view is open, and the look at the node every two seconds.

import { call, Unreachable } from "./api.js";
import { startDialogs } from "./dialogs.js";
import { $ } from "./dom.js";
import { startMessages } from "./messages.js";
import { showLost, showNode } from "./node.js";
import { startPublish } from "./publish.js";
import { complain } from "./toast.js";
import { openTopic, refreshTopic } from "./topic.js";
import { showTopics, startTopics } from "./topics.js";

const LOOK_MS = 2_000;

async function look() {
  const [stats, ready, list] = await Promise.all([
    call("GET /stats"),
    call("GET /readyz", { query: { verbose: true } }),
    call("GET /topics"),
  ]);
  const now = performance.now();
  showNode(stats, ready, now);
  showTopics(list.topics, now);
  await refreshTopic();
}

async function safely(action) {
  try {
    await action();
  } catch (error) {
    if (error instanceof Unreachable) {
      showLost();
    } else {
      complain(error);
    }
  }
}

async function keepLooking() {
  if (!document.hidden) {
    await safely(look);
  }
  setTimeout(keepLooking, LOOK_MS);
}

// #topic=orders opens a topic; anything else the list.
async function route(event) {
  const name = new URLSearchParams(location.hash.slice(1)).get("topic");
  document.title = name ? `${name} · GoQueue` : "GoQueue";
  $("overview").hidden = name !== null;
  $("topic").hidden = name === null;
  if (event) {
    scrollTo(0, 0);
    $(name === null ? "overview" : "topic").querySelector("h1").focus({ preventScroll: true });
  }
  await safely(() => openTopic(name));
}

startTopics();
startMessages();
startPublish();
startDialogs();
addEventListener("hashchange", route);
route().then(keepLooking);
