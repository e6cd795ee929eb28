// Redriving dead letters: which, how fast, where to; first what it would do.

import { call } from "../api.js";
import { h } from "../dom.js";
import { count } from "../format.js";
import { ask, notify } from "../ui.js";

export function redriveDialog(topic, chosen, after) {
  const body = (given, dry) => ({
    dry_run: dry,
    filter: {
      ...(given.reason ? { reason: given.reason } : {}), ...(given.group ? { group: given.group } : {}), ...(given.fingerprint ? { fingerprint: given.fingerprint } : {}),
      ...(given.from ? { from: new Date(given.from).getTime() } : {}), ...(given.header.includes(":") ? { headers: { [given.header.split(":")[0]]: given.header.split(":").slice(1).join(":").trim() } } : {}),
    },
    ...(given.rate ? { rate: Number(given.rate) } : {}), ...(given.limit ? { limit: Number(given.limit) } : {}), ...(given.to ? { to: given.to } : {}),
  });
  const send = (given, dry) => call("POST /topics/{topic}/dlq/redrive", { params: { topic }, body: body(given, dry), changes: !dry });
  ask({
    title: `Redrive dead letters of ${topic}`, submitLabel: "Redrive", about: "They go back to where they died, or to another topic. The preview changes nothing.",
    fields: [
      { name: "reason", label: "Reason", value: chosen.reason, placeholder: "any" }, { name: "group", label: "Group", value: chosen.group, placeholder: "any" },
      { name: "fingerprint", label: "Fingerprint of the error", value: chosen.fingerprint, placeholder: "any" },
      { name: "header", label: "Header", value: chosen.header, placeholder: "name:value" }, { name: "from", label: "Died since", type: "datetime-local", step: 1 },
      { name: "rate", label: "Messages a second", type: "number", min: 1, placeholder: "as fast as possible" }, { name: "limit", label: "At most", type: "number", min: 1, placeholder: "all that fit" }, { name: "to", label: "To topic", placeholder: "where each died" },
    ],
    preview: async (given) => {
      const told = await send(given, true);
      const lines = (counts) => Object.entries(counts).map(([reason, number]) => h("li", `${reason}: ${count(number)}`));
      return [h("p", `${count(told.would_move)} would be moved.`), h("ul", null, lines(told.by_reason)), Object.keys(told.skipped).length ? [h("p", "These would stay:"), h("ul", null, lines(told.skipped))] : null];
    },
    submit: async (given) => {
      await send(given, false);
      notify("The redrive has begun; its progress is below.");
      await after();
    },
  });
}
