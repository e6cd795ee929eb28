// Groups: who reads, what each member has, how far behind it is and was, and moving it.

import { call } from "../api.js";
import { Charts } from "../chart.js";
import { h, paused, put } from "../dom.js";
import { count } from "../format.js";
import { Table } from "../table.js";
import { ask, card, chip, confirm, empty, facts, head, link, notify, to, write } from "../ui.js";

export const openGroups = (place) => (place.parts.length ? openGroup(place.parts[0]) : openList());

const mood = { stable: "good", empty: "", dead: "bad" };

function openList() {
  let all = [];
  const lags = new Map();
  let known = -Infinity;
  const filter = h("input", { type: "search", placeholder: "Filter", "aria-label": "Filter groups", "data-filter": "", oninput: paused(() => show(), 80) });
  const table = new Table({
    label: "Groups", key: (one) => one.group, href: (one) => to("groups", one.group), sort: ["name", 1],
    columns: [
      { name: "name", label: "Group", text: (one) => one.group, sort: (one) => one.group },
      { name: "state", label: "State", cell: (one) => chip(one.state.toLowerCase(), mood[one.state.toLowerCase()] ?? "warm"), sort: (one) => one.state },
      { name: "members", label: "Members", num: true, text: (one) => count(one.members), sort: (one) => one.members },
      { name: "lag", label: "Lag", num: true, text: (one) => (lags.has(one.group) ? count(lags.get(one.group)) : "–"), sort: (one) => lags.get(one.group) ?? -1 },
      { name: "kind", label: "Kind", text: (one) => one.kind, sort: (one) => one.kind, className: "least" },
    ],
    empty: empty("No groups yet.", "A group is who reads: consumers that share the work. It appears when the first one joins, or when a queue is received from."),
  });
  const show = () => table.show(filter.value ? all.filter((one) => one.group.toLowerCase().includes(filter.value.toLowerCase())) : all);
  async function refresh() {
    all = (await call("GET /groups")).groups;
    if (performance.now() - known > 10_000) {
      known = performance.now();
      const { series } = await call("GET /history", { query: { prefix: "lag:", minutes: 1, points: 6 } }).catch(() => ({ series: {} }));
      Object.entries(series).forEach(([name, points]) => lags.set(name.slice(4), points.findLast((one) => one !== null) ?? 0));
    }
    show();
  }
  return { content: [head("Groups", { about: "Who reads, and how far behind they are.", actions: [filter] }), table.node], refresh };
}

async function openGroup(name) {
  const charts = new Charts([["Lag", "", [["messages", `lag:${name}`]]]]);
  const about = h("div");
  const members = new Table({
    label: "Members", height: "short", key: (one) => one.member_id,
    columns: [
      { name: "client", label: "Client", text: (one) => one.client_id, sort: (one) => one.client_id },
      { name: "host", label: "Host", text: (one) => one.host },
      { name: "door", label: "Through", text: (one) => one.door, className: "least" },
      { name: "parts", label: "Assignment", cell: (one) => assigned(one.assignment) },
      { name: "id", label: "Member", text: (one) => one.member_id, className: "least" },
    ],
    empty: "Nobody is in the group now. Its offsets are kept.",
  });
  const lag = new Table({
    label: "Lag by partition", height: "short", key: (one) => `${one.topic}:${one.partition}`, sort: ["lag", -1],
    columns: [
      { name: "topic", label: "Topic", cell: (one) => link(`${one.topic} ${one.partition}`, to("topics", one.topic, "messages", { partition: one.partition, offset: one.committed ?? 0 })), sort: (one) => one.topic },
      { name: "committed", label: "Committed", num: true, text: (one) => (one.committed === null ? "never" : count(one.committed)) },
      { name: "end", label: "End", num: true, text: (one) => count(one.end_offset) },
      { name: "lag", label: "Lag", num: true, text: (one) => count(one.lag), sort: (one) => one.lag },
      { name: "who", label: "Read by", cell: (one) => one.who ?? chip("nobody", one.lag ? "bad" : "") },
    ],
    empty: "It has committed nothing yet.",
  });
  let group = null;
  async function refresh() {
    group = await call("GET /groups/{group}", { params: { group: name } });
    const behind = group.lag.reduce((sum, one) => sum + one.lag, 0);
    const worst = [...group.lag].sort((a, b) => b.lag - a.lag)[0];
    const reader = (one) => group.members.find((member) => member.assignment.some((part) => part.topic === one.topic && part.partitions.includes(one.partition)))?.client_id;
    put(about, facts([["State", group.state], ["Kind", group.kind], ["Mode", group.mode], ["Protocol", group.protocol], ["Generation", String(group.generation)], ["Members", count(group.members.length)], ["Lag", `${count(behind)} messages`]]),
      h("p.muted", { class: "why" }, why(group, behind, worst)));
    members.show(group.members);
    lag.show(group.lag.map((one) => ({ ...one, who: group.mode === "shared" && group.members.length ? "all members" : reader(one) })));
    await charts.refresh();
  }
  const actions = [
    write("Reset offsets", () => reset(name, group, refresh)),
    write("Delete", () => confirm(`Delete ${name}?`, "Its offsets are forgotten: who joins under this name begins anew.", "Delete", async () => {
      await call("DELETE /groups/{group}", { params: { group: name } });
      location.hash = "#/groups";
    }), "danger"),
  ];
  return { content: [head(name, { up: ["Groups", "#/groups"], actions }), card("", about), charts.node, card("Members", members.node), card("Lag by partition", lag.node)], refresh };
}

/** In words: why the group is behind. */
function why(group, behind, worst) {
  if (!behind) {
    return group.members.length ? "It is up to date." : "It is up to date. Partitions that it never read are not counted while it has no members.";
  }
  if (!group.members.length) {
    return "Nobody reads: the group has no members. Start a consumer, and it goes on where the group stopped.";
  }
  const share = Math.round((100 * worst.lag) / behind);
  return share > 60 && group.lag.length > 1
    ? `${share} % of the lag is in partition ${worst.partition} of ${worst.topic}: one consumer, or one key, is behind.`
    : "The lag is spread over the partitions: the consumers together are slower than the producers.";
}

const assigned = (parts) => parts.map((one) => `${one.topic} ${ranges(one.partitions)}`).join(", ") || h("span.muted", "nothing");

/** 0-3, 7 */
function ranges(numbers) {
  const runs = [];
  for (const one of [...numbers].sort((a, b) => a - b)) {
    const last = runs.at(-1);
    if (last && last[1] === one - 1) {
      last[1] = one;
    } else {
      runs.push([one, one]);
    }
  }
  return runs.map(([a, b]) => (a === b ? a : `${a}-${b}`)).join(", ");
}

function reset(name, group, after) {
  const topics = [...new Set(group.lag.map((one) => one.topic))];
  const body = (given, dry) => ({
    topic: given.topic, to: given.to, dry_run: dry,
    ...(given.partition === "" ? {} : { partition: Number(given.partition) }),
    ...(given.to === "timestamp" ? { timestamp: new Date(given.timestamp).getTime() } : {}),
    ...(given.to === "offset" ? { offset: Number(given.offset) } : {}),
  });
  const send = (given, dry) => call("POST /groups/{group}/offsets/reset", { params: { group: name }, body: body(given, dry), changes: !dry });
  ask({
    title: `Reset offsets of ${name}`,
    about: group.members.length ? "The group has members: stop them first, then it can be moved." : "Where the group goes on. The preview changes nothing.",
    submitLabel: "Reset",
    fields: [
      topics.length ? { name: "topic", label: "Topic", options: topics } : { name: "topic", label: "Topic", required: true },
      { name: "partition", label: "Partition", type: "number", min: 0, placeholder: "all" },
      { name: "to", label: "To", options: [["earliest", "the beginning"], ["latest", "the end"], ["timestamp", "a time"], ["offset", "an offset"]] },
      { name: "timestamp", label: "Time", type: "datetime-local", step: 1 },
      { name: "offset", label: "Offset", type: "number", min: 0 },
    ],
    preview: async (given) => {
      const { offsets } = await send(given, true);
      return h("table", { "aria-label": "Preview" }, h("thead", null, h("tr", null, ["Partition", "From", "To", "Messages"].map((one) => h("th", { scope: "col" }, one)))),
        h("tbody", null, offsets.map((one) => h("tr", null, [one.partition, one.from === null ? "never" : count(one.from), count(one.to), one.from === null ? "" : count(one.to - one.from)].map((text) => h("td", String(text)))))));
    },
    submit: async (given) => {
      const { offsets } = await send(given, false);
      notify(`Moved in ${offsets.length} partitions.`);
      await after();
    },
  });
}
