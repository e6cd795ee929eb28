// Reading a topic page by page, in both directions. No DOM here.
//
// A page is { messages, starts, ends }: messages in order, and for each partition the first offset of the page and the
// one behind it. Older pages end at `starts`, newer ones begin at `ends`.

import { call } from "./api.js";

const READ_MAX = 1_000;
const ROUNDS_MAX = 20;

const cursor = (offsets) => [...offsets].map(([partition, offset]) => `${partition}:${offset}`).join(",");

async function read(topic, from, limit) {
  const answer = await call("GET /topics/{topic}/messages", { params: { topic }, query: { from, limit } });
  const next = new Map(Object.entries(answer.next_offsets).map(([key, offset]) => [Number(key), offset]));
  return { messages: answer.messages, next };
}

/** The topic's partitions as they are now, those that `wanted` takes. */
export async function lookAt(topic, wanted) {
  const view = await call("GET /topics/{topic}", { params: { topic } });
  return view.partitions.filter((one) => wanted(one.partition));
}

/** Where the partitions begin or end. */
export const edge = (partitions, key) => new Map(partitions.map((one) => [one.partition, one[key]]));

/** Up to `limit` messages from the offsets on. */
export async function readAfter(topic, partitions, offsets, limit) {
  const starts = step(partitions, offsets);
  const { messages, next } = await read(topic, cursor(starts), limit);
  return { messages, starts, ends: next };
}

/** Up to `limit` messages from a time on. */
export async function readFrom(topic, partitions, ms, limit) {
  const first = await read(topic, String(ms), 1);
  return readAfter(topic, partitions, firsts(first.messages, first.next), limit);
}

/** The newest `limit` messages that stand before the offsets. */
export async function readBefore(topic, partitions, offsets, limit) {
  const back = Math.max(1, Math.min(limit, Math.floor(READ_MAX / partitions.length)));
  let at = new Map([...offsets].map(([partition, offset]) => [partition, Math.max(0, offset - back)]));
  const found = [];
  for (let round = 0; round < ROUNDS_MAX; round++) {
    at = new Map([...step(partitions, at)].filter(([partition, offset]) => offset < offsets.get(partition)));
    if (!at.size) {
      break;
    }
    const missing = [...at].reduce((sum, [partition, offset]) => sum + offsets.get(partition) - offset, 0);
    const { messages, next } = await read(topic, cursor(at), missing);
    found.push(...messages.filter((message) => message.offset < offsets.get(message.partition)));
    if (!messages.length && [...next].every(([partition, offset]) => offset === at.get(partition))) {
      break;
    }
    at = next;
  }
  const messages = found.slice(-limit);
  return { messages, starts: firsts(messages, offsets), ends: offsets };
}

/** Offsets that can be read: none before the log's start, none in a damaged stretch. */
function step(partitions, offsets) {
  return new Map(partitions.filter((one) => offsets.has(one.partition)).map((one) => {
    let offset = Math.max(offsets.get(one.partition), one.start_offset);
    for (const range of one.damaged) {
      if (range.first_offset <= offset && offset <= range.last_offset) {
        offset = range.last_offset + 1;
      }
    }
    return [one.partition, offset];
  }));
}

/** Each partition's first offset among the messages; where it has none, the given one. */
function firsts(messages, otherwise) {
  const found = new Map(otherwise);
  const seen = new Set();
  for (const { partition, offset } of messages) {
    if (!seen.has(partition)) {
      seen.add(partition);
      found.set(partition, offset);
    }
  }
  return found;
}
