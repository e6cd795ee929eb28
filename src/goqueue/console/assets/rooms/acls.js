// Rules of access: who may do what; and why somebody may or may not.

import { call } from "../api.js";
import { h, put } from "../dom.js";
import { Table } from "../table.js";
import { ask, card, chip, confirm, empty, field, head, values, write } from "../ui.js";

const KINDS = ["topic", "group", "transactional_id", "subject", "cluster"];
const OPERATIONS = ["read", "write", "create", "delete", "alter", "describe", "describe_configs", "alter_configs", "cluster_action", "idempotent_write", "all"];

export function openAcls() {
  const about = h("span");
  const table = new Table({
    label: "Rules", key: (one) => JSON.stringify(one), sort: ["who", 1],
    columns: [
      { name: "who", label: "Who", text: (one) => one.principal, sort: (one) => one.principal },
      { name: "permission", label: "May", cell: (one) => chip(one.permission, one.permission === "allow" ? "good" : "bad"), sort: (one) => one.permission },
      { name: "operation", label: "Do", text: (one) => one.operation, sort: (one) => one.operation },
      { name: "thing", label: "With", text: (one) => `${one.kind} ${one.name}${one.pattern === "prefixed" ? "…" : ""}`, sort: (one) => one.kind + one.name },
      { name: "host", label: "From", text: (one) => (one.host === "*" ? "anywhere" : one.host), className: "least" },
      { name: "act", label: "Act", cell: (one) => write("Delete", () => remove(one), "danger") },
    ],
    empty: empty("No rules.", "Without a rule nobody but superusers may do anything, once authorisation is on.", write("New rule", add, "primary")),
  });
  async function refresh() {
    const found = await call("GET /admin/acls");
    put(about, found.enforced ? "The node asks these rules before everything." : "The node does not ask these rules: security.authorization is off.");
    table.show(found.rules);
  }
  const remove = (one) => confirm("Delete this rule?", `${one.principal}: ${one.permission} ${one.operation} ${one.kind} ${one.name}`, "Delete", async () => {
    await call("DELETE /admin/acls", { query: { principal: one.principal, kind: one.kind, name: one.name, pattern: one.pattern, operation: one.operation, permission: one.permission, host: one.host } });
    await refresh();
  });
  function add() {
    ask({
      title: "New rule", submitLabel: "Add",
      fields: [
        { name: "principal", label: "Who", value: "User:", required: true, hint: "User:NAME, or User:* for everybody" }, { name: "permission", label: "May", options: ["allow", "deny"] },
        { name: "operation", label: "Do", options: OPERATIONS }, { name: "kind", label: "With", options: KINDS }, { name: "name", label: "Name", value: "*", required: true },
        { name: "pattern", label: "The name is", options: [["literal", "just this"], ["prefixed", "the beginning of names"]] }, { name: "host", label: "From address", value: "*" },
      ],
      submit: async (given) => { await call("POST /admin/acls", { body: { rules: [given] } }); await refresh(); },
    });
  }
  return { content: [head("Rules", { about, actions: [write("New rule", add, "primary")] }), explainCard(), table.node], refresh };
}

function explainCard() {
  const answer = h("p", { role: "status" });
  const form = h("form.bar", { "aria-label": "Explain" }, field({ name: "user", label: "May the user", required: true }), field({ name: "operation", label: "do", options: OPERATIONS }), field({ name: "resource", label: "with", required: true, placeholder: "topic:orders" }), h("button", { type: "submit" }, "Explain"));
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    try {
      const told = await call("GET /admin/acls/explain", { query: values(form) });
      put(answer, chip(told.allowed ? "yes" : "no", told.allowed ? "good" : "bad"), " ", told.reason);
    } catch (error) {
      put(answer, error.message);
    }
  });
  return card("Why may somebody, or why not", form, answer);
}
