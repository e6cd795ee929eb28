// The node itself: the header, the tiles, and what is wrong with it.

import { $, setText } from "./dom.js";
import { bytes, bytesParts, counted, countParts, duration } from "./format.js";
import { Rate } from "./rate.js";

const DISK_WARM_PERCENT = 80;
const DISK_HOT_PERCENT = 90;

const tiles = [
  { id: "messages-in", rate: new Rate(), value: (stats) => stats.storage.records_appended, parts: countParts, unit: "/s" },
  { id: "bytes-in", rate: new Rate(), value: (stats) => stats.storage.bytes_appended, parts: bytesParts, unit: "/s" },
  { id: "bytes-read", rate: new Rate(), value: (stats) => stats.storage.bytes_read, parts: bytesParts, unit: "/s" },
];

/** Shows what GET /stats and GET /readyz said. */
export function showNode(stats, ready, now) {
  document.body.classList.remove("lost");
  setText($("version"), stats.version);
  setText($("uptime"), duration(stats.uptime_ms));
  showDisk(stats.disk);
  showReady(ready);
  for (const tile of tiles) {
    tile.rate.see(tile.value(stats), now);
    showTile(tile);
  }
  showStored(stats);
}

/** The node does not answer; what is shown is old. */
export function showLost() {
  document.body.classList.add("lost");
  showState("bad", "unreachable");
  notice("Node unreachable, retrying. What you see is from its last answer.");
}

function showReady(ready) {
  const isReady = ready.status === "ready";
  showState(isReady ? "good" : "bad", ready.status);
  const reasons = Object.entries(ready.checks ?? {}).filter(([, check]) => !check.ok);
  notice(isReady ? "" : `Not ready. ${reasons.map(([name, check]) => `${name}: ${check.detail}`).join("; ")}`);
}

function showState(kind, text) {
  $("state").className = `pill ${kind}`;
  setText($("state"), text);
}

function notice(text) {
  setText($("notice"), text);
  $("notice").hidden = !text;
}

function showDisk(disk) {
  const percent = disk.used_percent;
  const heat = percent >= DISK_HOT_PERCENT ? "hot" : percent >= DISK_WARM_PERCENT ? "warm" : "";
  $("disk-fill").style.width = `${Math.min(100, percent)}%`;
  $("disk-fill").className = heat;
  $("disk-bar").setAttribute("aria-valuenow", percent.toFixed(0));
  setText($("disk-text"), `${percent.toFixed(0)} %, ${bytes(disk.free_bytes)} free`);
}

function showTile({ id, rate, parts, unit }) {
  const tile = $(id);
  const [number, prefix] = rate.current === null ? ["–", ""] : parts(rate.current);
  setText(tile.querySelector(".number"), number);
  setText(tile.querySelector(".unit"), prefix + unit);
  setText(tile.querySelector(".peak"), rate.peak ? `peak ${parts(rate.peak).join(" ").trim()}${unit}` : "");
  rate.draw(tile.querySelector(".spark"));
}

function showStored(stats) {
  const [size, unit] = bytesParts(stats.size_bytes);
  setText($("stored-size"), size);
  setText($("stored-unit"), unit);
  setText($("stored-messages"), counted(stats.messages, "message"));
  setText($("stored-where"), `${counted(stats.topics, "topic")}, ${counted(stats.partitions, "partition")}`);
}
