// Schemas: subjects, versions side by side, and a check before one is registered.

import { call } from "../api.js";
import { h, paused, put } from "../dom.js";
import { count, indentJson } from "../format.js";
import { Table } from "../table.js";
import { ask, card, chip, confirm, empty, facts, field, head, notify, to, write } from "../ui.js";

const LEVELS = ["BACKWARD", "BACKWARD_TRANSITIVE", "FORWARD", "FORWARD_TRANSITIVE", "FULL", "FULL_TRANSITIVE", "NONE"];

export const openSchemas = (place) => (place.parts.length ? openSubject(place.parts[0], place.query) : openList());

function openList() {
  let all = [];
  const filter = h("input", { type: "search", placeholder: "Filter", "aria-label": "Filter subjects", "data-filter": "", oninput: paused(() => show(), 80) });
  const about = h("div");
  const table = new Table({
    label: "Subjects", key: (one) => one.subject, href: (one) => to("schemas", one.subject), sort: ["name", 1],
    columns: [
      { name: "name", label: "Subject", text: (one) => one.subject, sort: (one) => one.subject },
      { name: "type", label: "Type", cell: (one) => chip((one.schemaType ?? "AVRO").toLowerCase()), sort: (one) => one.schemaType ?? "AVRO" },
      { name: "version", label: "Latest version", num: true, text: (one) => one.version, sort: (one) => one.version },
      { name: "id", label: "Id", num: true, text: (one) => one.id, sort: (one) => one.id },
    ],
    empty: empty("No schemas yet.", "A schema says what values look like. Confluent's serialisers register here; or do it yourself.", write("Register", () => register(""), "primary")),
  });
  const show = () => table.show(filter.value ? all.filter((one) => one.subject.toLowerCase().includes(filter.value.toLowerCase())) : all);
  async function refresh() {
    const [list, config] = await Promise.all([call("GET /schemas", { query: { latestOnly: "true" } }), call("GET /config").catch(() => null)]);
    all = list;
    put(about, config ? `New versions have to be ${config.compatibilityLevel} compatible, unless a subject says otherwise.` : null);
    show();
  }
  return { content: [head("Schemas", { about, actions: [filter, write("Register", () => register(""), "primary")] }), table.node], refresh };
}

async function openSubject(subject, query) {
  const numbers = await call("GET /subjects/{subject}/versions", { params: { subject } });
  const all = await Promise.all(numbers.slice(-50).map((version) => call("GET /subjects/{subject}/versions/{version}", { params: { subject, version } })));
  const config = await call("GET /config/{subject}", { params: { subject }, query: { defaultToGlobal: "true" } });
  const latest = all.at(-1);
  const [left, right] = [Number(query.get("left")) || all.at(-2)?.version || latest.version, Number(query.get("right")) || latest.version];
  const pick = (name, value) => field({ name, label: name === "left" ? "Compare version" : "with version", options: all.map((one) => [String(one.version), `version ${one.version}`]), value: String(value),
    onchange: (chosen) => { location.hash = to("schemas", subject, { left, right, [name]: chosen }); } });
  const text = (version) => pretty(all.find((one) => one.version === version) ?? latest);
  const actions = [
    write("New version", () => register(subject, latest), "primary"),
    write("Compatibility", () => ask({ title: `Compatibility of ${subject}`, fields: [{ name: "compatibility", label: "Level", options: LEVELS, value: config.compatibilityLevel }],
      submit: async (given) => { await call("PUT /config/{subject}", { params: { subject }, body: given }); notify(`New versions have to be ${given.compatibility} compatible.`); } })),
    write("Delete", () => confirm(`Delete ${subject}?`, "Its versions can no longer be found by name; messages that name their ids can still be read.", "Delete", async () => {
      await call("DELETE /subjects/{subject}", { params: { subject } });
      location.hash = "#/schemas";
    }), "danger"),
  ];
  const [a, b] = diff(text(left), text(right));
  return { content: [head(subject, { up: ["Schemas", "#/schemas"], actions }),
    card("", facts([["Type", chip((latest.schemaType ?? "AVRO").toLowerCase())], ["Versions", count(numbers.length)], ["Latest", `version ${latest.version}, id ${latest.id}`], ["Compatibility", config.compatibilityLevel], ["References", latest.references?.map((one) => `${one.name}: ${one.subject} ${one.version}`).join(", ")]])),
    card("Versions side by side", h("div.bar", null, pick("left", left), pick("right", right)), h("br"), h("div.versus", null, h("pre", { tabindex: "0", "aria-label": `Version ${left}` }, a), h("pre", { tabindex: "0", "aria-label": `Version ${right}` }, b)))] };
}

const pretty = (one) => (one.schemaType === "PROTOBUF" ? one.schema : indentJson(one.schema));

/** Lines of two texts beside each other; what only one of them has is marked (longest common subsequence). */
function diff(before, after) {
  const [a, b] = [before.split("\n").slice(0, 1500), after.split("\n").slice(0, 1500)];
  const long = Array.from({ length: a.length + 1 }, () => new Uint16Array(b.length + 1));
  for (let i = a.length - 1; i >= 0; i -= 1) {
    for (let j = b.length - 1; j >= 0; j -= 1) {
      long[i][j] = a[i] === b[j] ? long[i + 1][j + 1] + 1 : Math.max(long[i + 1][j], long[i][j + 1]);
    }
  }
  const [left, right] = [[], []];
  let [i, j] = [0, 0];
  const line = (text, kind) => h("span.diff", { class: kind }, text);
  while (i < a.length || j < b.length) {
    if (i < a.length && j < b.length && a[i] === b[j]) {
      left.push(line(a[i++], ""));
      right.push(line(b[j++], ""));
    } else if (j >= b.length || (i < a.length && long[i + 1][j] >= long[i][j + 1])) {
      left.push(line(a[i++], "removed"));
      right.push(line("", ""));
    } else {
      left.push(line("", ""));
      right.push(line(b[j++], "added"));
    }
  }
  return [left, right];
}

function register(subject, latest) {
  const body = (given) => ({ schema: given.schema, schemaType: given.type });
  const check = async (given) => {
    const told = await call("POST /compatibility/subjects/{subject}/versions", { params: { subject: given.subject }, query: { verbose: "true" }, body: body(given) })
      .catch((error) => (error.code === "40401" ? { is_compatible: true, messages: ["It would be the first version."] } : Promise.reject(error)));
    return [h("p", null, told.is_compatible ? chip("can be registered", "good") : chip("not compatible", "bad")), h("ul", null, (told.messages ?? []).map((one) => h("li", one)))];
  };
  ask({
    title: subject ? `New version of ${subject}` : "Register a schema", submitLabel: "Register", about: "“Preview” checks it against the versions that are there, and registers nothing.",
    fields: [
      { name: "subject", label: "Subject", value: subject, required: true, placeholder: "orders-value", hint: "Values of a topic are described by the subject topic-value." },
      { name: "type", label: "Type", options: ["AVRO", "JSON", "PROTOBUF"], value: latest?.schemaType ?? "AVRO" },
      { name: "schema", label: "Schema", type: "textarea", rows: 12, value: latest ? pretty(latest) : "", required: true },
    ],
    preview: check,
    submit: async (given) => {
      const made = await call("POST /subjects/{subject}/versions", { params: { subject: given.subject }, body: body(given) });
      notify(`Registered as version ${made.version} with id ${made.id}.`);
      location.hash = to("schemas", given.subject, { right: made.version });
    },
  });
}
