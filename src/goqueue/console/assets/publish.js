// The form that publishes one message.

import { call } from "./api.js";
import { $, setText } from "./dom.js";
import { count } from "./format.js";
import { headers } from "./lines.js";
import { showPublished } from "./messages.js";
import { trying } from "./toast.js";

let topic = null;

export function openPublish(name) {
  topic = name;
  setText($("published"), "Ctrl+Enter publishes");
}

async function publish(form) {
  const target = topic;
  const body = { messages: [message(form.elements)] };
  const { results } = await call("POST /topics/{topic}/messages", { params: { topic: target }, body });
  const [{ partition, offset }] = results;
  setText($("published"), `stored at ${partition}:${count(offset)}`);
  await showPublished();
}

function message({ key, value, tombstone, headers: lines, priority, partition }) {
  return {
    value: tombstone.checked ? null : value.value,
    ...(key.value === "" ? {} : { key: key.value }),
    ...(partition.value === "" ? {} : { partition: Number(partition.value) }),
    headers: headers(lines.value),
    priority: priority.value,
  };
}

export function startPublish() {
  const form = $("publish");
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    trying(() => publish(form), form);
  });
  form.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      form.requestSubmit();
    }
  });
  form.elements.tombstone.addEventListener("change", (event) => {
    form.elements.value.disabled = event.target.checked;
  });
}
