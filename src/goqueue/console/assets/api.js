// Every request of the page goes through here. A route is written "METHOD /path/{parameter}", as the API describes it.

const TIMEOUT_MS = 10_000;

/** What the node, or this page, refuses: a sentence, a code and perhaps the field that is wrong. */
export class Problem extends Error {
  constructor({ code, detail, field, status }) {
    super(detail);
    this.code = code;
    this.field = field;
    this.status = status;
  }
}

/** No answer at all. */
export class Unreachable extends Error {}

/** The route as an address, relative to this page so that it also works under /v1 or behind a proxy. */
export function address(route, params = {}, query = {}) {
  const path = route.split(" ")[1].slice(1).replace(/{(\w+)}/g, (_, name) => encodeURIComponent(params[name]));
  const asked = new URLSearchParams(query).toString();
  return asked ? `${path}?${asked}` : path;
}

export async function call(route, { params, query, body } = {}) {
  const response = await ask(address(route, params, query), {
    method: route.split(" ")[0],
    body: body === undefined ? undefined : JSON.stringify(body),
    headers: body === undefined ? {} : { "Content-Type": "application/json" },
    cache: "no-store",
    signal: AbortSignal.timeout(TIMEOUT_MS),
  });
  return response.status === 204 ? null : read(response);
}

async function ask(url, options) {
  try {
    return await fetch(url, options);
  } catch {
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
  if (type.startsWith("application/problem+json")) {
    throw new Problem(body);
  }
  return body;
}
