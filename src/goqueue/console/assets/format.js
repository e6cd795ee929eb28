// Numbers, times and values as people read them.

const WHOLE = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const BYTE_UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
const COUNT_UNITS = ["", "k", "M", "G"];

export const count = (number) => WHOLE.format(number);

export const counted = (number, noun) => `${count(number)} ${noun}${number === 1 ? "" : "s"}`;

/** [number, unit] such as ["1.4", "MiB"]. */
export const bytesParts = (bytes) => scaled(bytes, 1024, BYTE_UNITS);

export const bytes = (size) => bytesParts(size).join(" ");

/** [number, unit] such as ["12.3", "k"]. */
export const countParts = (number) => scaled(number, 1000, COUNT_UNITS);

function scaled(number, step, units) {
  let unit = 0;
  while (number >= step && unit < units.length - 1) {
    number /= step;
    unit += 1;
  }
  const digits = number >= 100 || Number.isInteger(number) ? 0 : 1;
  return [number.toFixed(digits), units[unit]];
}

/** "3 d 4 h", "12 min", "8 s": the largest unit, and the next one where it counts. */
export function duration(ms) {
  const seconds = Math.floor(ms / 1000);
  const parts = [[Math.floor(seconds / 86_400), "d"], [Math.floor(seconds / 3_600) % 24, "h"],
    [Math.floor(seconds / 60) % 60, "min"], [seconds % 60, "s"]];
  const first = parts.findIndex(([number]) => number > 0);
  const shown = first < 0 ? parts.slice(-1) : parts.slice(first, first + 2).filter(([number]) => number > 0);
  return shown.map((part) => part.join(" ")).join(" ");
}

/** What a setting's number means, or nothing. */
export function meaning(key, value) {
  const number = Number(value);
  if (number === -1 || number > 1e15) {
    return "no limit";
  }
  if (key.endsWith(".ms") && number >= 1000) {
    return duration(number);
  }
  return key.endsWith(".bytes") && number >= 1024 ? bytes(number) : "";
}

const two = (number) => String(number).padStart(2, "0");

/** Local time, sortable: 2026-01-31 12:00:05.123. */
export function time(ms) {
  const at = new Date(ms);
  if (Number.isNaN(at.getTime())) {
    return `${ms} ms`;
  }
  const day = `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`;
  const clock = `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;
  return `${day} ${clock}.${String(at.getMilliseconds()).padStart(3, "0")}`;
}

/** What a datetime-local field holds for a time. */
export const timeField = (ms) => time(ms).slice(0, 19).replace(" ", "T");

/** JSON with lines and indents; anything else as it is. Only spaces change: big numbers keep all their digits. */
export function indentJson(text) {
  if (!/^\s*[[{]/.test(text)) {
    return text;
  }
  try {
    JSON.parse(text);
  } catch {
    return text;
  }
  const tokens = text.match(/"(?:[^"\\]|\\.)*"|[[\]{},:]|[^\s[\]{},:"]+/g);
  let depth = 0;
  let out = "";
  tokens.forEach((token, place) => {
    if (token === "{" || token === "[") {
      depth += 1;
      const empty = tokens[place + 1] === "}" || tokens[place + 1] === "]";
      out += empty ? token : token + line(depth);
    } else if (token === "}" || token === "]") {
      depth -= 1;
      const empty = tokens[place - 1] === "{" || tokens[place - 1] === "[";
      out += empty ? token : line(depth) + token;
    } else {
      out += token === "," ? `,${line(depth)}` : token === ":" ? ": " : token;
    }
  });
  return out;
}

const line = (depth) => `\n${"  ".repeat(depth)}`;

/** How long ago, or until when. */
export function ago(ms, now = Date.now()) {
  const apart = now - ms;
  return apart >= 0 ? `${duration(apart)} ago` : `in ${duration(-apart)}`;
}

/** A number with its unit, short: "12.3 k", "1.4 MiB". */
export const short = (number) => countParts(number).join(" ").trim();

export const UNITS = {
  "/s": (value) => `${short(value < 10 ? Math.round(value * 10) / 10 : Math.round(value))}/s`,
  "B/s": (value) => `${bytes(value)}/s`,
  B: (value) => bytes(value),
  ms: (value) => `${value < 10 ? value.toFixed(1) : Math.round(value)} ms`,
  s: (value) => duration(value * 1000),
  "": (value) => short(Math.round(value * 10) / 10),
  "%": (value) => `${value.toFixed(1)} %`,
};
