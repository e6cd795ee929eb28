// Making, changing and deleting topics.

import { call } from "./api.js";
import { $, setText } from "./dom.js";
import { counted } from "./format.js";
import { pairs } from "./lines.js";
import { tell, trying } from "./toast.js";
import { refreshTopic, topic } from "./topic.js";

let changing = null; // the topic that the dialog changes; null if it makes one

// --- make and change --------------------------------------------------------------------------------------------

function openTopicDialog(subject) {
  changing = subject;
  const form = $("topic-dialog").querySelector("form");
  form.reset();
  setText($("topic-dialog-title"), subject ? "Change the topic" : "New topic");
  setText($("topic-dialog-go"), subject ? "Change" : "Create");
  form.elements.name.readOnly = subject !== null;
  if (subject) {
    form.elements.name.value = subject.name;
    form.elements.num_partitions.value = subject.num_partitions;
    form.elements.config.value = Object.entries(subject.overrides).map((pair) => pair.join("=")).join("\n");
  }
  $("topic-dialog").showModal();
  (subject ? form.elements.config : form.elements.name).focus();
}

async function make(fields) {
  const name = fields.name.value.trim();
  const asked = fields.num_partitions.value;
  const config = Object.fromEntries(pairs(fields.config.value, "config"));
  const count = asked === "" ? {} : { num_partitions: Number(asked) };
  await call("POST /topics", { body: { name, config, ...count } });
  $("topic-dialog").close();
  tell(`Created ${name}.`);
  location.hash = `topic=${encodeURIComponent(name)}`;
}

// A setting whose line was taken away goes back to the node's default.
async function change(fields) {
  const given = Object.fromEntries(pairs(fields.config.value, "config"));
  const dropped = Object.keys(changing.overrides).filter((key) => !(key in given));
  const config = { ...given, ...Object.fromEntries(dropped.map((key) => [key, null])) };
  const count = Number(fields.num_partitions.value || changing.num_partitions);
  const body = count === changing.num_partitions ? { config } : { config, num_partitions: count };
  await call("PATCH /topics/{topic}", { params: { topic: changing.name }, body });
  $("topic-dialog").close();
  tell(`Changed ${changing.name}.`);
  await refreshTopic();
}

// --- delete -----------------------------------------------------------------------------------------------------

function openDeleteDialog(subject) {
  const form = $("delete-dialog").querySelector("form");
  form.reset();
  form.dataset.name = subject.name;
  $("delete-go").disabled = true;
  setText($("delete-name"), subject.name);
  setText($("delete-count"), counted(subject.messages, "message"));
  $("delete-dialog").showModal();
  form.elements.confirm.focus();
}

async function remove(name) {
  await call("DELETE /topics/{topic}", { params: { topic: name } });
  $("delete-dialog").close();
  tell(`Deleted ${name}.`);
  location.hash = "";
}

// --- controls ---------------------------------------------------------------------------------------------------

export function startDialogs() {
  $("new-topic").addEventListener("click", () => openTopicDialog(null));
  $("change-topic").addEventListener("click", () => topic && openTopicDialog(topic));
  $("delete-topic").addEventListener("click", () => topic && openDeleteDialog(topic));
  for (const button of document.querySelectorAll("[data-close]")) {
    button.addEventListener("click", () => button.closest("dialog").close());
  }
  onSubmit("topic-dialog", (form) => (changing ? change(form.elements) : make(form.elements)));
  onSubmit("delete-dialog", (form) => remove(form.dataset.name));
  const sure = $("delete-dialog").querySelector("form");
  sure.elements.confirm.addEventListener("input", (event) => {
    $("delete-go").disabled = event.target.value !== sure.dataset.name;
  });
}

function onSubmit(dialogId, action) {
  const form = $(dialogId).querySelector("form");
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    trying(() => action(form), form);
  });
}
