// Users, and the API keys that act for them.

import { call } from "../api.js";
import { copy, h } from "../dom.js";
import { ago, duration, time } from "../format.js";
import { Table } from "../table.js";
import { ask, button, card, chip, confirm, empty, head, notify, write } from "../ui.js";

const DAY_MS = 86_400_000;

export function openUsers() {
  const users = new Table({
    label: "Users", height: "short", key: (one) => one.name, sort: ["name", 1],
    columns: [
      { name: "name", label: "User", text: (one) => one.name, sort: (one) => one.name },
      { name: "state", label: "State", cell: (one) => (one.disabled ? chip("disabled", "bad") : chip("active", "good")) },
      { name: "tenant", label: "Tenant", text: (one) => one.tenant || "–" },
      { name: "mechanisms", label: "Passwords for", text: (one) => one.mechanisms.join(", "), className: "least" },
      { name: "created", label: "Created", text: (one) => time(one.created_ms).slice(0, 16), className: "least" },
      { name: "act", label: "Act", cell: (one) => [write("New key", () => newKey(one.name)), " ", write("Password", () => password(one.name)), " ", write(one.disabled ? "Enable" : "Disable", () => change(one.name, { disabled: !one.disabled })), " ", write("Delete", () => remove(one.name), "danger")] },
    ],
    empty: empty("No users.", "A user has a password for Kafka (SCRAM) and REST, and API keys. Who may do what is in the rules.", write("New user", addUser, "primary")),
  });
  const keys = new Table({
    label: "API keys", height: "short", key: (one) => one.id,
    columns: [
      { name: "id", label: "Key", text: (one) => one.id, className: "mono" },
      { name: "owner", label: "Of", text: (one) => one.owner, sort: (one) => one.owner },
      { name: "note", label: "Note", text: (one) => one.note },
      { name: "expires", label: "Runs out", text: (one) => (one.expires_ms === null ? "never" : ago(one.expires_ms)), sort: (one) => one.expires_ms ?? Infinity },
      { name: "used", label: "Last used", text: (one) => (one.last_used_ms === null ? "never" : ago(one.last_used_ms)), sort: (one) => one.last_used_ms ?? 0 },
      { name: "signs", label: "For SQS", text: (one) => (one.signs ? "yes" : "no"), className: "least" },
      { name: "act", label: "Act", cell: (one) => [write("Rotate", () => rotate(one.id)), " ", write("Revoke", () => revoke(one.id), "danger")] },
    ],
    empty: "No keys. “New key” beside a user makes one.",
  });
  async function refresh() {
    const [people, all] = await Promise.all([call("GET /admin/users"), call("GET /admin/keys")]);
    users.show(people.users);
    keys.show(all.keys);
  }
  const change = async (user, body) => {
    await call("PATCH /admin/users/{user}", { params: { user }, body });
    await refresh();
  };
  function addUser() {
    ask({
      title: "New user", submitLabel: "Create", fields: [{ name: "name", label: "Name", required: true }, { name: "password", label: "Password", type: "password", autocomplete: "new-password", required: true }, { name: "tenant", label: "Tenant", placeholder: "none" }],
      submit: async (given) => { await call("POST /admin/users", { body: { name: given.name, password: given.password, ...(given.tenant ? { tenant: given.tenant } : {}) } }); await refresh(); },
    });
  }
  const password = (user) => ask({ title: `Password of ${user}`, fields: [{ name: "password", label: "New password", type: "password", autocomplete: "new-password", required: true }], submit: (given) => change(user, given) });
  const remove = (user) => confirm(`Delete ${user}?`, "The user's keys are revoked, and open connections are closed.", "Delete", async () => { await call("DELETE /admin/users/{user}", { params: { user } }); await refresh(); });
  const revoke = (key) => confirm(`Revoke ${key}?`, "Whoever uses it is refused from now on.", "Revoke", async () => { await call("DELETE /admin/keys/{key}", { params: { key } }); await refresh(); });
  const rotate = (key) => ask({ title: `Rotate ${key}`, submitLabel: "Rotate", about: "A new key takes its place; the old one counts for a while.", fields: [{ name: "minutes", label: "Old key counts for (minutes)", type: "number", min: 0, value: 60 }],
    submit: async (given) => { showKey(await call("POST /admin/keys/{key}/rotate", { params: { key }, body: { overlap_ms: Number(given.minutes) * 60_000 } })); await refresh(); } });
  function newKey(owner) {
    ask({
      title: `New key of ${owner}`, submitLabel: "Make it", fields: [{ name: "note", label: "Note", placeholder: "what it is for" }, { name: "days", label: "Days that it lives", type: "number", min: 1, placeholder: "for ever" }, { name: "signs", label: "For SQS too (AWS signatures)", type: "checkbox" }],
      submit: async (given) => {
        showKey(await call("POST /admin/keys", { body: { owner, note: given.note, signs: given.signs, ...(given.days ? { lives_ms: Number(given.days) * DAY_MS } : {}) } }));
        await refresh();
      },
    });
  }
  const actions = [write("New user", addUser, "primary")];
  return { content: [head("Users and keys", { actions }), card("Users", users.node), card("API keys", keys.node)], refresh };
}

/** Shown this once: the node keeps no secret that it could show again. */
function showKey(made) {
  ask({
    title: "The new key", changes: false, submitLabel: "I have kept it", about: "It is shown this once. Clients send it as Authorization: Bearer.",
    content: h("div", null, h("pre", made.token), button("Copy", async () => { await copy(made.token); notify("Copied."); }), made.key.expires_ms ? h("p.muted", `It lives for ${duration(made.key.expires_ms - Date.now())}.`) : null),
    submit: async () => {},
  });
}
