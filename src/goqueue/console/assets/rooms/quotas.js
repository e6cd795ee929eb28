// Quotas: how much users and clients may take of the node.

import { call } from "../api.js";
import { Table } from "../table.js";
import { ask, confirm, empty, head, write } from "../ui.js";

const LIMITS = ["producer_byte_rate", "consumer_byte_rate", "request_rate"];
const who = (name) => (name === null ? "–" : name === "" ? "each without its own" : name);

export function openQuotas() {
  const table = new Table({
    label: "Quotas", key: (one) => `${one.user}\n${one.client_id}`,
    columns: [
      { name: "user", label: "User", text: (one) => who(one.user) },
      { name: "client", label: "Client id", text: (one) => who(one.client_id) },
      { name: "limits", label: "Limits", text: (one) => Object.entries(one.limits).map(([name, value]) => `${name} ${value.toLocaleString("en")}`).join(", ") },
      { name: "act", label: "Act", cell: (one) => [write("Change", () => change(one)), " ", write("Delete", () => remove(one), "danger")] },
    ],
    empty: empty("No quotas.", "Without one, a client may take what there is. A quota slows down who takes more.", write("New quota", () => change(null), "primary")),
  });
  const refresh = async () => table.show((await call("GET /admin/quotas")).quotas);
  const whose = (one) => ({ ...(one.user === null ? {} : { user: one.user }), ...(one.client_id === null ? {} : { client_id: one.client_id }) });
  const remove = (one) => confirm("Delete this quota?", "Nothing limits them any more.", "Delete", async () => { await call("DELETE /admin/quotas", { query: whose(one) }); await refresh(); });
  function change(one) {
    ask({
      title: one ? "Change the quota" : "New quota", about: "Bytes and requests a second. An empty limit is taken away.",
      fields: [...(one ? [] : [{ name: "user", label: "User", placeholder: "any" }, { name: "client_id", label: "Client id", placeholder: "any" }]),
        ...LIMITS.map((name) => ({ name, label: name.replaceAll("_", " "), type: "number", min: 0, step: "any", value: one?.limits[name] ?? "" }))],
      submit: async (given) => {
        const limits = Object.fromEntries(LIMITS.map((name) => [name, given[name] === "" ? null : Number(given[name])]));
        const subject = one ? whose(one) : { ...(given.user ? { user: given.user } : {}), ...(given.client_id ? { client_id: given.client_id } : {}) };
        await call("POST /admin/quotas", { body: { ...subject, limits } });
        await refresh();
      },
    });
  }
  return { content: [head("Quotas", { about: "How much users and clients may take.", actions: [write("New quota", () => change(null), "primary")] }), table.node], refresh };
}
