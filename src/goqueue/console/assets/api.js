// Every request of the page goes through here. A route is written "METHOD /path/{parameter}", as the API describes it.

import { isReadOnlyNode } from "./mode.js";

const TIMEOUT_MS = 15_000;
const TOKEN = "goqueue.token";
const LOOKS = new Set(["POST /schemas/decode", "POST /compatibility/subjects/{subject}/versions"]); // these change nothing

/** What the node, or this page, refuses: a sentence, a code and perhaps the field that is wrong. */
export class Problem extends Error {
  constructor(told) {
    super(told.detail ?? told.message ?? told.title ?? "The node refused.");
    Object.assign(this, { code: told.code ?? String(told.error_code ?? ""), field: told.field, status: told.status, told });
  }
}

/** No answer at all. */
export class Unreachable extends Error {}

// Kept for this tab alone: never in an address, never on disk. A password is kept in memory only.
const session = { header: sessionStorage.getItem(TOKEN), isReadOnly: isReadOnlyNode, onLogin: () => {} };
export const state = session;

export function logIn(header, isKey) {
  session.header = header;
  if (isKey && header !== null) {
    sessionStorage.setItem(TOKEN, header);
  } else {
    sessionStorage.removeItem(TOKEN);
  }
}

/** The route as an address, relative to this page so that it also works under /v1 or behind a proxy. */
export function address(route, params = {}, query = {}) {
  const path = route.split(" ")[1].slice(1).replace(/{(\w+)}/g, (_, name) => encodeURIComponent(params[name]));
  const given = Object.entries(query).filter(([, value]) => value !== undefined && value !== null && value !== "");
  const asked = new URLSearchParams(given).toString();
  return asked ? `${path}?${asked}` : path;
}

/** What to do about it. */
export const readOnlyReason = () => (isReadOnlyNode ? "The page of this node is read-only, as its settings say." : "Read-only mode is on: switch it off above to change things.");

export async function call(route, { params, query, body, signal, changes } = {}) {
  const method = route.split(" ")[0];
  if (session.isReadOnly && method !== "GET" && changes !== false && !LOOKS.has(route)) {
    throw new Problem({ code: "read-only", detail: readOnlyReason() });
  }
  const limit = AbortSignal.timeout(TIMEOUT_MS);
  const response = await ask(address(route, params, query), {
    method,
    body: body === undefined ? undefined : JSON.stringify(body),
    headers: { ...credentials(), ...(body === undefined ? {} : { "Content-Type": "application/json" }) },
    signal: signal ? AbortSignal.any([signal, limit]) : limit,
  });
  return response.status === 204 ? null : read(response);
}

/** An answer that goes on: hands over the text as it comes. */
export async function stream(route, { params, query, signal }, onText) {
  const response = await ask(address(route, params, query), { headers: credentials(), signal });
  if (!response.ok) {
    return read(response);
  }
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  for (let part = await reader.read(); !part.done; part = await reader.read()) {
    onText(part.value);
  }
  return null;
}

const credentials = () => (session.header ? { Authorization: session.header } : {});

async function ask(url, options) {
  try {
    // Without the browser's own credentials: a refusal must not open its password box.
    return await fetch(url, { cache: "no-store", credentials: "omit", ...options });
  } catch (error) {
    if (error.name === "AbortError") {
      throw error;
    }
    throw new Unreachable("The node does not answer.");
  }
}

// An answer that is no success but plain JSON is an answer still: /readyz says 503 and why.
async function read(response) {
  const type = response.headers.get("Content-Type") ?? "";
  if (!type.includes("json")) {
    throw new Problem({ code: "unexpected-answer", detail: `The node answered ${response.status} without JSON.` });
  }
  let body;
  try {
    body = await response.json();
  } catch {
    throw new Unreachable("The answer broke off.");
  }
  if (response.status === 401) {
    session.onLogin(body.code);
  }
  if (type.startsWith("application/problem+json") || (body !== null && typeof body === "object" && "error_code" in body)) {
    throw new Problem({ status: response.status, ...body });
  }
  return body;
}
