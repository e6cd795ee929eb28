// The audit log: who changed what, who looked at messages, who was refused.

import { call } from "../api.js";
import { h, put } from "../dom.js";
import { count } from "../format.js";
import { Table } from "../table.js";
import { chip, empty, field, head, to, values } from "../ui.js";

export function openAudit(place) {
  const asked = Object.fromEntries(place.query);
  const told = h("p.muted", { role: "status" });
  const form = h("form.card.bar", { "aria-label": "Filter" },
    field({ name: "user", label: "Who", value: asked.user }), field({ name: "event", label: "What", options: [["", "anything"], "change", "refused", "read", "login"], value: asked.event ?? "" }), field({ name: "text", label: "With", value: asked.text, placeholder: "topic:orders" }), h("button.primary", { type: "submit" }, "Filter"));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    location.hash = to("audit", values(form));
  });
  const table = new Table({
    label: "Audit log", height: "tall", key: (one) => one.at + one.time,
    columns: [
      { name: "time", label: "Time", text: (one) => one.time.replace("T", " ").slice(0, 19) },
      { name: "event", label: "What", cell: (one) => chip(one.event, one.event === "refused" ? "bad" : "") },
      { name: "who", label: "Who", text: (one) => one.user },
      { name: "host", label: "From", text: (one) => `${one.host} ${one.door}`, className: "least" },
      { name: "verb", label: "Did", text: (one) => one.verb },
      { name: "things", label: "With", text: (one) => one.resources.join(", ") },
      { name: "outcome", label: "Outcome", text: (one) => one.outcome },
      { name: "node", label: "Node", num: true, text: (one) => one.node ?? "", className: "least" },
      { name: "times", label: "Times", num: true, text: (one) => one.count, className: "least" },
    ],
    empty: empty("No lines.", "The audit log is kept where the setting security.audit_log says; without it there is none."),
  });
  async function refresh() {
    const found = await call("GET /admin/audit", { query: { ...asked, limit: 1000 } });
    table.show(found.lines.map((one, at) => ({ ...one, at })));
    const silent = found.silent.length ? ` Lines of node ${found.silent.join(", ")} are missing: it does not answer.` : "";
    put(told, (found.is_kept ? `The last ${count(found.lines.length)} lines that fit, of all nodes.` : "No audit log is kept: the setting security.audit_log is empty.") + silent);
  }
  return { content: [head("Audit", { about: "Who changed what, who looked at messages, who was refused." }), form, table.node, told], refresh };
}
