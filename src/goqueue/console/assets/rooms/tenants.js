// Tenants: who shares the node, and how much each has.

import { call } from "../api.js";
import { bytes, count, time } from "../format.js";
import { Table } from "../table.js";
import { ask, confirm, empty, head, write } from "../ui.js";

export function openTenants() {
  const table = new Table({
    label: "Tenants", key: (one) => one.name, sort: ["name", 1],
    columns: [
      { name: "name", label: "Tenant", text: (one) => one.name, sort: (one) => one.name },
      { name: "topics", label: "Topics", num: true, text: (one) => count(one.topics), sort: (one) => one.topics },
      { name: "messages", label: "Messages", num: true, text: (one) => count(one.messages), sort: (one) => one.messages },
      { name: "size", label: "Size", num: true, text: (one) => bytes(one.size_bytes), sort: (one) => one.size_bytes },
      { name: "groups", label: "Groups", num: true, text: (one) => count(one.groups), className: "least" },
      { name: "subjects", label: "Subjects", num: true, text: (one) => count(one.subjects), className: "least" },
      { name: "users", label: "Users", num: true, text: (one) => count(one.users) },
      { name: "created", label: "Created", text: (one) => time(one.created_ms).slice(0, 16), className: "least" },
      { name: "act", label: "Act", cell: (one) => write("Delete", () => confirm(`Delete ${one.name}?`, "Only a tenant that has nothing can be deleted.", "Delete", async () => {
        await call("DELETE /admin/tenants/{tenant}", { params: { tenant: one.name } });
        await refresh();
      }), "danger") },
    ],
    empty: empty("No tenants.", "A tenant has topics, groups and users of its own, and sees nobody else's.", write("New tenant", add, "primary")),
  });
  const refresh = async () => table.show((await call("GET /admin/tenants")).tenants);
  function add() {
    ask({ title: "New tenant", submitLabel: "Create", fields: [{ name: "name", label: "Name", required: true }], submit: async (given) => { await call("POST /admin/tenants", { body: given }); await refresh(); } });
  }
  return { content: [head("Tenants", { about: "Who shares the node without seeing each other.", actions: [write("New tenant", add, "primary")] }), table.node], refresh: slowly(refresh) };
}

/** Sums over all nodes: not every two seconds. */
function slowly(refresh) {
  let last = -Infinity;
  return async () => {
    if (performance.now() - last > 10_000) {
      last = performance.now();
      await refresh();
    }
  };
}
