// Values that a schema describes, as JSON. The registry is asked once for all that are shown.

import { call } from "./api.js";

const AT_ONCE = 200;

/** Adds `decoded` ({schema_id, type, subject, json} or {error}) to messages whose values or headers name a schema. */
export async function decodeAll(messages) {
  const wanted = messages.filter((one) => one.decoded === undefined && namesSchema(one)).slice(0, AT_ONCE);
  if (!wanted.length) {
    return messages;
  }
  const values = wanted.map((one) => ({ value: one.value, encoding: one.encoding ?? "text", schema_id: headerId(one) }));
  const { results } = await call("POST /schemas/decode", { body: { values } }).catch(() => ({ results: [] }));
  const found = new Map(wanted.map((one, at) => [one, results[at] ?? null]));
  return messages.map((one) => (found.has(one) ? { ...one, decoded: found.get(one) } : one));
}

function headerId(message) {
  const given = message.headers?.["schema-id"];
  return typeof given === "string" && /^\d{1,9}$/.test(given) ? Number(given) : null;
}

function namesSchema(message) {
  if (typeof message.value !== "string") {
    return false;
  }
  const hasPrefix = message.encoding === "base64" ? /^AA/.test(message.value) && message.value.length >= 8 : message.value.charCodeAt(0) === 0;
  return hasPrefix || headerId(message) !== null;
}
