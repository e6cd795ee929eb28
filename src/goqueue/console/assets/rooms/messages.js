// A topic's messages: the newest, from a place on, those that fit, and a live tail.

import { call } from "../api.js";
import { decodeAll } from "../decode.js";
import { h, put } from "../dom.js";
import { count, time, timeField } from "../format.js";
import { inspector } from "../inspector.js";
import { publishDialog } from "../publish.js";
import { Table } from "../table.js";
import { Tail } from "../tail.js";
import { button, chip, complain, empty, field, link, to, values, write } from "../ui.js";

const PAGE = 100;
const TAIL_ROWS = 500;
const SEARCH = ["key", "header", "path", "text"];

export function openMessages(name, topic, place) {
  const query = Object.fromEntries(place.query);
  const view = new MessagesView(name, topic, query);
  return { content: view.node, reload: () => view.load(), close: () => view.tail?.stop() };
}

class MessagesView {
  constructor(name, topic, query) {
    Object.assign(this, { name, topic, query, rows: [], next: null, isDone: false });
    this.table = new Table({
      label: "Messages", className: "message", height: "tall", rowPx: 34,
      key: (one) => `${one.partition}:${one.offset}`, onOpen: (one) => this.open(one),
      columns: [
        { name: "time", label: "Time", cell: (one) => [h("span.least", time(one.timestamp).slice(0, 11)), time(one.timestamp).slice(11)] },
        { name: "place", label: "Place", text: (one) => `${one.partition}:${one.offset}` },
        { name: "key", label: "Key", text: (one) => (one.key ?? "").slice(0, 120) },
        { name: "value", label: "Value", cell: preview },
      ],
      empty: this.isSearch ? "Nothing found so far." : empty("No messages here.", "Publish one, or read from an earlier place.", write("Publish", () => publishDialog(name, topic.num_partitions, null, () => this.load()), "primary")),
    });
    this.told = h("p.muted", { role: "status" });
    this.aside = h("div");
    this.split = h("div.split", null, h("div", null, this.table.node, this.told), this.aside);
    this.live = h("button.live", { type: "button", "aria-pressed": "false", onclick: () => (this.tail ? this.stopTail() : this.startTail()) }, "Tail");
    this.older = h("div.actions");
    this.node = h("div", null, this.form(), h("br"), this.split);
    this.load();
  }

  get isSearch() {
    return SEARCH.some((one) => this.query[one]);
  }

  form() {
    const q = this.query;
    const parts = [["", "all"], ...Array.from({ length: this.topic.num_partitions }, (_, one) => [String(one), String(one)])];
    const form = h("form.card.bar", { "aria-label": "What to show" },
      field({ name: "partition", label: "Partition", options: parts, value: q.partition ?? "" }),
      narrow(field({ name: "offset", label: "From offset", type: "number", min: 0, value: q.offset ?? "" })),
      field({ name: "from", label: "From time", type: "datetime-local", step: 1, value: q.from ? timeField(Number(q.from)) : "" }),
      field({ name: "key", label: "Key", value: q.key ?? "" }),
      field({ name: "header", label: "Header", value: q.header ?? "", placeholder: "name:value" }),
      field({ name: "path", label: "JSON path", value: q.path ?? "", placeholder: "$.order.id=42" }),
      field({ name: "text", label: "Text", value: q.text ?? "" }),
      h("button.primary", { type: "submit" }, "Show"), this.live, link("Newest", to("topics", this.name, "messages"), "button"));
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      const given = values(form);
      given.from = given.from ? String(new Date(given.from).getTime()) : "";
      if (given.offset !== "" && given.partition === "") {
        given.partition = "0";
      }
      location.hash = to("topics", this.name, "messages", given);
    });
    return form;
  }

  async load() {
    try {
      this.rows = [];
      this.isDone = false;
      await (this.isSearch ? this.search() : this.query.offset || this.query.from ? this.forward() : this.newest());
    } catch (error) {
      complain(error);
    }
  }

  partitions() {
    return this.topic.partitions.filter((one) => !this.query.partition || one.partition === Number(this.query.partition));
  }

  async newest() {
    const topic = await call("GET /topics/{topic}", { params: { topic: this.name } });
    this.topic = topic;
    const before = this.query.before ? Object.fromEntries(this.query.before.split(",").map((one) => one.split(":").map(Number))) : {};
    const parts = this.partitions();
    const each = Math.ceil(PAGE / parts.length);
    const ends = parts.map((one) => [one.partition, before[one.partition] ?? one.high_watermark, one.start_offset]);
    const begins = ends.map(([at, end, start]) => [at, Math.max(start, end - each)]);
    const limit = ends.reduce((sum, [, end], at) => sum + end - begins[at][1], 0);
    const page = limit ? await call("GET /topics/{topic}/messages", { params: { topic: this.name }, query: { from: begins.map((one) => one.join(":")).join(","), limit } }) : { messages: [] };
    const byEnd = Object.fromEntries(ends.map(([at, end]) => [at, end]));
    const rows = page.messages.filter((one) => one.offset < byEnd[one.partition]).reverse();
    const hasOlder = begins.some(([, begin], at) => begin > ends[at][2]);
    await this.show(rows);
    const total = parts.reduce((sum, one) => sum + one.messages, 0);
    this.tell(`The newest ${count(rows.length)} of about ${count(total)}.`, hasOlder ? link("Older", to("topics", this.name, "messages", { partition: this.query.partition, before: begins.map((one) => one.join(":")).join(",") }), "button") : null);
    this.ends = ends.map(([at, end]) => [at, end]);
  }

  async forward() {
    const { offset, from, partition } = this.query;
    const one = partition !== undefined && partition !== "";
    const page = one
      ? await call("GET /topics/{topic}/partitions/{partition}/messages", { params: { topic: this.name, partition }, query: { offset, from: offset ? undefined : from, limit: PAGE } })
      : await call("GET /topics/{topic}/messages", { params: { topic: this.name }, query: { from: this.query.cursor ?? from, limit: PAGE } });
    await this.show(page.messages);
    const next = one ? { partition, offset: page.next_offset } : { from, cursor: page.next };
    this.tell(`${count(page.messages.length)} messages from there on, the oldest first.`, page.messages.length === PAGE ? link("Next", to("topics", this.name, "messages", next), "button") : null);
  }

  async search(cursor = null, looked = 0) {
    const { key, header, path, text, from, partition, offset } = this.query;
    this.searching = true;
    const start = cursor ?? (offset ? `${partition}:${offset}` : from);
    const page = await call("GET /topics/{topic}/search", { params: { topic: this.name }, query: { key, header, path, text, from: start, partition: cursor ? undefined : partition, limit: PAGE } });
    await this.show([...this.rows, ...page.messages]);
    const total = looked + page.scanned;
    const isMore = page.next !== null && this.rows.length < 1000 && this.node.isConnected;
    this.tell(`${count(this.rows.length)} found in ${count(total)} messages${page.next === null ? "." : " so far."}`,
      page.next !== null ? button("Search on", () => this.search(page.next, total)) : null);
    if (isMore && this.rows.length < PAGE && total < 200_000) {
      await this.search(page.next, total);
    }
  }

  tell(text, more) {
    put(this.told, text, " ", more);
  }

  async show(rows) {
    this.rows = rows;
    this.table.show(rows);
    this.rows = await decodeAll(rows);
    this.table.show(this.rows);
    const wanted = this.query.open && this.rows.find((one) => `${one.partition}:${one.offset}` === this.query.open);
    if (wanted) {
      this.open(wanted);
      this.query.open = undefined;
    }
  }

  open(message) {
    const close = () => {
      put(this.aside);
      this.split.classList.remove("two");
      this.table.show(this.rows, null);
    };
    put(this.aside, inspector(message, { topic: this.name, partitions: this.topic.num_partitions, onClose: close }));
    this.split.classList.add("two");
    this.table.show(this.rows, `${message.partition}:${message.offset}`);
  }

  startTail() {
    this.live.setAttribute("aria-pressed", "true");
    const from = this.ends?.length ? this.ends.map((one) => one.join(":")).join(",") : "latest";
    this.tail = new Tail(this.name, { from, partition: this.query.partition }, {
      onRows: async (messages, received, dropped) => {
        this.rows = [...messages.reverse(), ...this.rows].slice(0, TAIL_ROWS);
        this.table.show(this.rows);
        this.tell(`${count(received)} received${dropped ? `, ${count(dropped)} of them too fast to show` : ""}.`);
        this.rows = await decodeAll(this.rows);
      },
      onState: (now, error) => {
        this.live.textContent = { live: "Tailing", waiting: "Waiting for the node", ended: "Tail" }[now];
        if (now === "ended") {
          this.stopTail();
          complain(error);
        }
      },
    });
  }

  stopTail() {
    this.tail?.stop();
    this.tail = null;
    this.live.setAttribute("aria-pressed", "false");
    this.live.textContent = "Tail";
  }

}

const narrow = (node) => {
  node.classList.add("narrow");
  return node;
};

function preview(message) {
  const text = message.value === null ? chip("tombstone") : (message.decoded?.json ?? message.value).slice(0, 300);
  return [message.priority !== "normal" ? [chip(message.priority, message.priority === "critical" || message.priority === "high" ? "bad" : ""), " "] : "",
    message.decoded?.json !== undefined ? [chip(message.decoded.type.toLowerCase(), "good"), " "] : message.encoding === "base64" ? [chip("binary"), " "] : "", text];
}
