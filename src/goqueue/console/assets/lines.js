// name=value lines, as people type settings and headers.

import { Problem } from "./api.js";

/** [[name, value], ...]; empty lines do not count. */
export function pairs(text, field) {
  return text
    .split("\n")
    .map((line) => line.trim())
    .filter((line) => line)
    .map((line) => pair(line, field));
}

function pair(line, field) {
  const cut = line.indexOf("=");
  if (cut < 1) {
    throw new Problem({ code: "invalid-line", detail: `"${line}" is not a line like name=value.`, field });
  }
  return [line.slice(0, cut).trim(), line.slice(cut + 1).trim()];
}

/** Headers as the API takes them: a name that occurs more than once has a list. */
export function headers(text) {
  const found = new Map();
  for (const [name, value] of pairs(text, "headers")) {
    found.set(name, [...(found.get(name) ?? []), value]);
  }
  return Object.fromEntries([...found].map(([name, values]) => [name, values.length === 1 ? values[0] : values]));
}
