// The cluster: which nodes live, where shards are, what moves, and moving them.

import { call } from "../api.js";
import { h, put } from "../dom.js";
import { bytes, count } from "../format.js";
import { Table } from "../table.js";
import { ask, card, chip, confirm, facts, head, notify, write } from "../ui.js";

const CONDITION = { ok: "good", "under-replicated": "warm", "at-minimum": "warm", "below-minimum": "bad", offline: "bad" };
const STATUS = { ok: "good", degraded: "warm", unavailable: "bad" };

export function openCluster() {
  const health = h("div");
  const moves = h("div");
  const nodes = new Table({
    label: "Nodes", height: "short", key: (one) => one.id,
    columns: [
      { name: "id", label: "Node", text: (one) => `node ${one.id}`, sort: (one) => one.id },
      { name: "state", label: "State", cell: (one) => [chip(one.state, one.state === "alive" ? "good" : "bad"), one.is_controller ? [" ", chip("controller")] : ""] },
      { name: "leads", label: "Leads", num: true, text: (one) => count(one.leads) },
      { name: "follows", label: "Follows", num: true, text: (one) => count(one.follows) },
      { name: "sync", label: "In sync", num: true, text: (one) => count(one.in_sync) },
      { name: "version", label: "Version", text: (one) => one.version, className: "least" },
      { name: "rack", label: "Rack", text: (one) => one.rack, className: "least" },
      { name: "addresses", label: "Addresses", text: (one) => Object.entries(one.addresses).map(([door, at]) => `${door} ${at}`).join(", "), className: "least" },
      { name: "act", label: "Act", cell: (one) => [write("May it stop?", () => safe(one.id)), " ", write("Drain", () => move(`Drain node ${one.id}`, { drain: one.id }, refresh)), " ", one.state === "gone" ? write("Take out", () => takeOut(one.id, refresh), "danger") : write("Fill again", () => fill(one.id))] },
    ],
  });
  const shards = new Table({
    label: "Shards", height: "short", key: (one) => one.shard, sort: ["shard", 1],
    columns: [
      { name: "shard", label: "Shard", num: true, text: (one) => one.shard, sort: (one) => one.shard },
      { name: "condition", label: "Condition", cell: (one) => chip(one.condition, CONDITION[one.condition]), sort: (one) => one.condition },
      { name: "leader", label: "Leader", text: (one) => (one.leader === null ? "nobody" : `node ${one.leader}`), sort: (one) => one.leader ?? -1 },
      { name: "replicas", label: "Replicas", text: (one) => one.replicas.join(", ") },
      { name: "sync", label: "In sync", text: (one) => one.in_sync.join(", ") },
      { name: "lag", label: "Followers behind", text: (one) => Object.entries(one.lag).filter(([, lag]) => lag.messages).map(([node, lag]) => `node ${node}: ${count(lag.messages)}`).join(", ") || "–", className: "least" },
      { name: "epoch", label: "Epoch", num: true, text: (one) => one.epoch, className: "least" },
      { name: "partitions", label: "Partitions", num: true, text: (one) => count(one.partitions), sort: (one) => one.partitions },
    ],
  });
  let known = "";
  async function refresh() {
    const [told, cluster, under] = await Promise.all([call("GET /cluster/health"), call("GET /cluster/state"), call("GET /admin/reassignment")]);
    put(health, facts([["Status", chip(told.status, STATUS[told.status])], ["Cluster", told.cluster_id], ["This node", String(cluster.node)], ["Nodes", `${told.nodes_alive} alive, ${told.nodes_gone} gone`], ["Shards", count(told.shards)],
      ["Under-replicated", told.under_replicated ? count(told.under_replicated) : null], ["Below minimum", told.below_minimum ? count(told.below_minimum) : null], ["Offline", told.offline ? count(told.offline) : null]]),
    told.problems.length ? h("ul", null, told.problems.map((one) => h("li", one))) : null);
    nodes.show(cluster.nodes);
    shards.show(cluster.shards);
    const drawn = JSON.stringify(under);
    if (drawn !== known) {
      known = drawn;
      put(moves, moving(under, refresh));
    }
  }
  const actions = [write("Rebalance", () => move("Make the nodes even", { rebalance: true }, refresh)), write("Throttle moves", () => throttle(refresh))];
  return { content: [head("Cluster", { actions }), card("Health", health), moves, card("Nodes", nodes.node), card("Shards", shards.node)], refresh };
}

function moving({ moves, throttle: limit }, after) {
  if (!moves.length) {
    return null;
  }
  return card("Moves", h("p.muted", limit ? `At most ${bytes(limit)} a second from each node.` : "Not throttled."), moves.map((one) => {
    const shares = Object.entries(one.waits_for);
    return h("div", null, h("h3", `Shard ${one.shard}: ${one.before.join(", ")} → ${one.after.join(", ")}, ${bytes(one.bytes)}`), shares.map(([node, share]) => {
      const bar = h("span");
      bar.style.width = `${100 * share}%`;
      return h("div", null, h("small.muted", `node ${node}: ${(100 * share).toFixed(0)} %`), h("div.meter", { role: "progressbar", "aria-label": `Shard ${one.shard} to node ${node}`, "aria-valuenow": Math.round(100 * share), "aria-valuemin": 0, "aria-valuemax": 100 }, bar));
    }), write("Turn it back", async () => {
      await call("DELETE /admin/reassignment", { query: { shard: one.shard } });
      await after();
    }));
  }));
}

function move(title, wanted, after) {
  const plan = (dry) => call("POST /admin/reassignment", { body: { ...wanted, dry_run: dry }, changes: !dry });
  ask({
    title, submitLabel: "Begin", about: "Shards are copied first and change hands when the copies are whole. The preview shows what would move.",
    preview: async () => {
      const told = await plan(true);
      return told.moves.length ? [h("p", `${told.moves.length} shards, ${bytes(told.bytes)} to copy.`), h("ul", null, told.moves.map((one) => h("li", `Shard ${one.shard}: ${one.before.join(", ")} → ${one.after.join(", ")} (${bytes(one.bytes)})`)))] : h("p", "Nothing would move.");
    },
    submit: async () => {
      const told = await plan(false);
      notify(told.moves.length ? `${told.moves.length} shards move.` : "Nothing has to move.");
      await after();
    },
  });
}

async function safe(node) {
  const told = await call("GET /cluster/nodes/{node}/restart-safe", { params: { node } });
  notify(told.is_safe ? `Node ${node} may be stopped now.` : `Not now: ${told.reasons.join("; ")}`, told.is_safe ? "good" : "bad");
}

async function fill(node) {
  await call("POST /cluster/nodes/{node}/fill", { params: { node } });
  notify(`Node ${node} may hold shards again; “Rebalance” moves some there.`);
}

const takeOut = (node, after) => confirm(`Take node ${node} out?`, "It has to be drained and stopped. The cluster forgets it.", "Take it out", async () => {
  await call("DELETE /cluster/nodes/{node}", { params: { node } });
  await after();
});

const throttle = (after) => ask({
  title: "Throttle moves", fields: [{ name: "throttle", label: "Bytes a second from each node", type: "number", min: 0, value: 0, hint: "0 means no limit." }],
  submit: async (given) => {
    await call("PATCH /admin/reassignment", { body: { throttle: Number(given.throttle) } });
    await after();
  },
});
