// Transactions: producers, what they have open and for how long; staged sets.

import { call } from "../api.js";
import { h, put } from "../dom.js";
import { count, duration, time } from "../format.js";
import { Table } from "../table.js";
import { button, card, chip, confirm, empty, facts, head, link, to, write } from "../ui.js";

const MOOD = { ongoing: "warm", prepare_commit: "warm", prepare_abort: "warm", complete_commit: "good", complete_abort: "" };

export const openTransactions = (place) => (place.parts.length ? openOne(place.parts[0]) : openList(place));

const parts = (list) => list?.map((one) => `${one.topic} ${one.partitions.join(", ")}`).join("; ") ?? "";

function openList(place) {
  const state = place.query.get("state") ?? "open";
  const tiles = h("div.tiles");
  const table = new Table({
    label: "Transactions", key: (one) => one.transactional_id, href: (one) => to("transactions", one.transactional_id),
    columns: [
      { name: "id", label: "Transactional id", text: (one) => one.transactional_id, sort: (one) => one.transactional_id },
      { name: "state", label: "State", cell: (one) => chip(one.state.replace("_", " "), MOOD[one.state]), sort: (one) => one.state },
      { name: "open", label: "Open for", num: true, text: (one) => (one.open_ms === undefined || one.open_ms === null ? "–" : duration(one.open_ms)), sort: (one) => one.open_ms ?? -1 },
      { name: "timeout", label: "Ends after", num: true, text: (one) => duration(one.timeout_ms), className: "least" },
      { name: "epoch", label: "Epoch", num: true, text: (one) => one.epoch, className: "least" },
      { name: "parts", label: "Partitions", text: (one) => parts(one.partitions), className: "least" },
    ],
    sort: ["open", -1],
    empty: empty(state === "open" ? "No transaction is open." : "No producer has a transactional id yet.", "Kafka producers with a transactional.id, and POST /producers/init, appear here."),
  });
  const staged = new Table({
    label: "Staged sets", height: "short", key: (one) => one.owner,
    columns: [
      { name: "owner", label: "Owner", text: (one) => one.owner },
      { name: "last", label: "Last batch", num: true, text: (one) => one.last_batch ?? "none" },
      { name: "open", label: "Writers staged", num: true, text: (one) => count(one.open) },
      { name: "updated", label: "Updated", text: (one) => (one.updated ? time(one.updated) : "") },
    ],
    empty: "Nobody has staged a set.",
  });
  async function refresh() {
    const [stats, list, owners] = await Promise.all([call("GET /transactions/stats"), call("GET /transactions", { query: { state } }), call("GET /staged")]);
    put(tiles, [["Producers", stats.producers], ["Open", stats.open], ["Committed", stats.committed], ["Aborted", stats.aborted], ["Timed out", stats.timed_out]].map(([name, value]) => h("div.tile", null, h("span", name), h("b", count(value)))),
      h("div.tile", null, h("span", "Longest open"), h("b", duration(stats.longest_open_ms))));
    table.show(list.transactions);
    staged.show(owners.owners);
  }
  const other = state === "open" ? link("Show all producers", to("transactions", { state: "all" }), "button") : link("Only open ones", to("transactions"), "button");
  return { content: [head("Transactions", { about: "What is written together, or not at all.", actions: [other] }), tiles, table.node, card("Staged sets", staged.node)], refresh };
}

async function openOne(id) {
  const about = h("div");
  async function refresh() {
    const one = (await call("GET /transactions", { query: { state: "all", transactional_id: id } })).transactions.find((found) => found.transactional_id === id);
    put(about, one ? facts([["State", chip(one.state.replace("_", " "), MOOD[one.state])], ["Producer", String(one.producer_id)], ["Epoch", String(one.epoch)], ["Began", one.started ? time(one.started) : "none is open"],
      ["Open for", one.open_ms === undefined || one.open_ms === null ? null : duration(one.open_ms)], ["Ends after", duration(one.timeout_ms)], ["Partitions", parts(one.partitions)], ["Answers", one.receipts ? count(one.receipts) : null], ["Delayed", one.delayed ? count(one.delayed) : null],
      ["Offsets", one.offsets?.map((move) => `${move.group}: ${move.topic} ${move.partition} to ${move.offset}`).join("; ")]]) : empty("It is not there.", "No producer has that transactional id."));
  }
  const abort = write("Abort", () => confirm(`Abort what ${id} has open?`, "Its messages are never shown, and the producer is shut out: it has to begin anew.", "Abort", async () => {
    await call("POST /transactions/abort", { body: { transactional_id: id } });
    await refresh();
  }), "danger");
  return { content: [head(id, { up: ["Transactions", "#/transactions"], actions: [button("Look again", refresh), abort] }), card("", about)], refresh };
}
