// One topic: its partitions and settings. Messages, tail and publish have their own files.

import { call, Problem } from "./api.js";
import { $, clone, keyed, make, offerPartitions, setText } from "./dom.js";
import { bytes, count, counted, meaning, time } from "./format.js";
import { leaveMessages, openMessages, showPending } from "./messages.js";
import { openPublish } from "./publish.js";
import { rateText } from "./topics.js";

const DAMAGED_SHOWN_MAX = 4;

let name = null; // the topic that is asked for
let opened = null; // the one whose messages are shown

/** The topic as last seen, or null. */
export let topic = null;

/** Opens the topic's view; null closes it. */
export async function openTopic(next) {
  name = next;
  opened = null;
  topic = null;
  leaveMessages();
  $("topic-whole").hidden = true;
  $("topic-missing").hidden = true;
  setText($("topic-name"), next ?? "");
  await refreshTopic();
}

/** Looks again, if a topic is open. */
export async function refreshTopic() {
  if (name === null) {
    return;
  }
  const asked = name;
  const found = await describe(asked);
  if (asked !== name) {
    return; // the person has gone elsewhere meanwhile
  }
  if (found === null) {
    showMissing(asked);
    return;
  }
  topic = found;
  showTopic();
  if (opened !== asked) {
    opened = asked;
    openPublish(asked);
    await openMessages(asked);
  }
}

async function describe(asked) {
  try {
    return await call("GET /topics/{topic}", { params: { topic: asked } });
  } catch (error) {
    if (error instanceof Problem && !(error.status >= 500)) {
      return null; // unknown, or no name for a topic at all
    }
    throw error;
  }
}

function showMissing(asked) {
  topic = null;
  opened = null;
  leaveMessages();
  $("topic-whole").hidden = true;
  $("topic-missing").hidden = false;
  setText($("topic-missing"), `There is no topic "${asked}".`);
  showButtons();
}

function showTopic() {
  $("topic-whole").hidden = false;
  $("topic-missing").hidden = true;
  showButtons();
  showFacts();
  const most = Math.max(1, ...topic.partitions.map((one) => one.messages));
  const rows = $("partitions").tBodies[0];
  const update = (row, one) => showPartition(row, one, most);
  keyed(rows, topic.partitions, (one) => one.partition, () => clone("partition-row"), update);
  keyed($("config"), Object.entries(topic.config), ([key]) => key, makeSetting, showSetting);
  offerPartitions($("browse").elements.partition, topic.num_partitions, "all");
  offerPartitions($("publish").elements.partition, topic.num_partitions, "by key");
  showPending(topic);
}

function showButtons() {
  $("change-topic").disabled = topic === null;
  $("delete-topic").disabled = topic === null;
}

function showFacts() {
  const facts = [
    counted(topic.messages, "message"),
    bytes(topic.size_bytes),
    counted(topic.num_partitions, "partition"),
    `rate ${rateText(topic.name)}`,
    `created ${time(topic.created_ms).slice(0, 19)}`,
    `id ${topic.id}`,
  ];
  const spans = $("topic-facts").children;
  facts.forEach((text, place) => setText(spans[place] ?? $("topic-facts").appendChild(make("span")), text));
}

function showPartition(row, one, most) {
  const fill = (part, text) => setText(row.querySelector(`.${part}`), text);
  fill("partition", one.partition);
  fill("start", count(one.start_offset));
  fill("end", count(one.end_offset));
  fill("messages", count(one.messages));
  row.querySelector(".bar > span").style.width = `${(100 * one.messages) / most}%`;
  fill("size", bytes(one.size_bytes));
  fill("segments", count(one.segments));
  const states = healthOf(one);
  const describe = (node, [kind, text]) => {
    node.className = kind;
    setText(node, text);
  };
  keyed(row.querySelector(".health"), states, ([, text]) => text, () => make("span"), describe);
}

function healthOf(one) {
  const stretches = one.damaged.map((range) => `damaged ${count(range.first_offset)}–${count(range.last_offset)}`);
  const more = stretches.length - DAMAGED_SHOWN_MAX;
  const wrong = [
    ...(one.writable ? [] : ["read-only"]),
    ...stretches.slice(0, DAMAGED_SHOWN_MAX),
    ...(more > 0 ? [`and ${count(more)} more`] : []),
  ];
  return wrong.length ? wrong.map((text) => ["bad", text]) : [["", "ok"]];
}

function makeSetting() {
  return make("div", "", make("dt"), make("dd", "", make("span"), make("code")));
}

function showSetting(line, [key, value]) {
  setText(line.querySelector("dt"), key);
  setText(line.querySelector("span"), meaning(key, value));
  setText(line.querySelector("code"), value);
  line.classList.toggle("set", key in topic.overrides);
  line.title = key in topic.overrides ? "set for this topic" : "the node's default";
}
