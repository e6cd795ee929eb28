"""What came out: ratios first, as a table, as JSON, as drawings and as a page of the documentation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from html import escape

import msgspec

from bench.compare.harness import Outcome, Result
from bench.compare.model import ALL_OURS, Metric, Scenario, System


class Machine(msgspec.Struct):
    python: str
    cores: int
    system: str
    java: str


class Report(msgspec.Struct):
    """Everything that a run found. `effort` is quick or full."""

    made: str
    effort: str
    machine: Machine
    outcomes: list[Outcome]


class Row(msgspec.Struct, frozen=True):
    """One peer by one metric. `ratio` is above 1 where GoQueue is ahead, whichever direction is better."""

    scenario: str
    nodes: int
    metric: Metric
    peer: str
    ratio: float
    ours: float
    theirs: float

    @property
    def key(self) -> str:
        return f"{self.scenario}/{self.nodes}/{self.metric.key}/{self.peer}"


def now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")


def rows(report: Report, scenarios: Sequence[Scenario]) -> Iterator[Row]:
    known = {one.key: one for one in scenarios}
    for outcome in report.outcomes:
        ours = next((one for one in outcome.results if one.system in ALL_OURS), None)
        if ours is None:
            continue
        for metric in known[outcome.scenario].metrics:
            yield from _beside(outcome, metric, ours)


def _beside(outcome: Outcome, metric: Metric, ours: Result) -> Iterator[Row]:
    mine = ours.median(metric.key)
    for result in outcome.results:
        theirs = result.median(metric.key)
        if result is not ours and mine and theirs:
            ratio = mine / theirs if metric.more_is_better else theirs / mine
            yield Row(outcome.scenario, outcome.nodes, metric, result.system, ratio, mine, theirs)


def shown(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def table(report: Report, scenarios: Sequence[Scenario], systems: Sequence[System]) -> str:
    """For a terminal."""
    lines = [f"{'ratio':>7}  {'GoQueue':>12}  {'other':>12}  {'unit':<9} what"]
    names = {one.key: one.name for one in systems}
    titles = {one.key: one.title for one in scenarios}
    for row in rows(report, scenarios):
        what = f"{titles[row.scenario]}: {row.metric.title}, beside {names[row.peer]}"
        lines.append(f"{row.ratio:>7.2f}  {shown(row.ours):>12}  {shown(row.theirs):>12}  {row.metric.unit:<9} {what}")
    lines += [f"{what}" for what in without(report, systems)]
    return "\n".join(lines)


def durations(report: Report) -> str:
    """How long each scenario took with all its systems and rounds, and their sum."""
    lines = [f"{one.seconds:>7.0f} s  {one.scenario}, {one.nodes} node(s)" for one in report.outcomes]
    return "\n".join([*lines, f"{total_seconds(report):>7.0f} s  altogether"])


def total_seconds(report: Report) -> float:
    return sum(one.seconds for one in report.outcomes)


def without(report: Report, systems: Sequence[System]) -> Iterator[str]:
    """Who is missing, and whose figures do not count, and why."""
    names = {one.key: one.name for one in systems}
    for outcome in report.outcomes:
        for result in outcome.results:
            if result.absent or result.failed:
                word = f"absent: {result.absent}" if result.absent else f"failed: {result.failed}"
                yield f"{outcome.scenario}, {names[result.system]}: {word}"


# --- the page ------------------------------------------------------------------------------------------------------


def page(report: Report, scenarios: Sequence[Scenario], systems: Sequence[System]) -> str:
    found = {(one.scenario, one.nodes): one for one in report.outcomes}
    known = {one.key: one for one in scenarios}
    made = _MADE.format(made=report.made, effort=report.effort, **msgspec.structs.asdict(report.machine))
    parts = [f"# Side by side\n\n{made}\n\n{HOW}"]
    parts.append(_ratios(report, scenarios, systems))
    there = {result.system for outcome in report.outcomes for result in outcome.results}
    configured = (f"- **{one.name}**: {one.configuration}." for one in systems if one.key in there)
    parts.append("## Configurations\n\n" + "\n".join(configured))
    for (key, _), outcome in found.items():
        parts.append(_section(known[key], outcome, systems))
    if missing := list(dict.fromkeys(one.title for one in scenarios if one.key not in {key for key, _ in found})):
        parts.append(f"{_NOT_RUN}\n\n" + "\n".join(f"- {title}" for title in missing))
    if gone := list(without(report, systems)):
        parts.append("## Absent or failed\n\n" + "\n".join(f"- {one}" for one in gone))
    return "\n\n".join([*parts, LEFT_OUT]) + "\n"


_MADE = """`python -m bench.compare` ran all of this on one machine and wrote this page, on {made} (the {effort}
form). Run it on yours: `make compare QUICK=1` takes a few minutes, `make compare` about an hour.

The machine: {cores} cores, {system}, Python {python}, {java}. Servers and load share it."""

_NOT_RUN = """## Not in this run

These scenarios have no figures here, since only some were asked for. `make compare` runs all of them."""

HOW = """How to read the tables:

- A ratio above 1 means that GoQueue is ahead: faster, or with less memory, or sooner. A ratio below 1 is bold.
- A figure is the median of all rounds, with the smallest and the largest in brackets.

How it was measured:

- Each system is started fresh on loopback with the configuration below. A first round warms it up and does not count.
  Then the systems work one at a time, in an order that changes with every round.
- Systems that speak Kafka's protocol get the same client, librdkafka; those that speak SQS get boto3. Others get their
  own client for Python, which costs more for each message than librdkafka: their rates are a lower bound. GoQueue's
  queue gets a lean HTTP client that was written for this (`bench/peers/goqueue.py`), so that the node is measured.
- Every message is read back and compared with what was sent, byte by byte, and counted, after the clock has stopped; a
  task notes its call. A system that loses, doubles or damages one has no figure. Three scenarios look at less: after a
  crash with a full log its length and the last thousand messages of each partition are checked, at a start and a
  failover only that writes are acknowledged.
- Systems that sync before they answer are watched by strace while single messages are sent to them, before the rounds
  that count: one that acknowledges a message without a sync in between has no figure.
- Latency is counted from the moment when a message was due, not from when it was sent, so that a system that stands
  still cannot hide it.
- A system that cannot be installed is listed as absent. Nothing is estimated."""

LEFT_OUT = """## What is not compared

- **Delayed messages** with Kafka, Redis Streams, NATS and RabbitMQ: these versions have no delay for a single message;
  RabbitMQ needs a plugin for it. ElasticMQ has one, and is compared.
- **Urgent messages** with all but RabbitMQ: the others have no priorities.
- **Synced writes** with RabbitMQ and NATS: a RabbitMQ stream and this version of NATS confirm before the sync, and
  have no setting for it. A RabbitMQ quorum queue always syncs, and is among the work queues.
- **Latency in an open loop, fan-out, many topics, transactions, recovery and failover** with systems other than Kafka:
  the load is one for Kafka's protocol. What queues take for a message is in "Publish, take, acknowledge one by one".
- **Clusters** of others than GoQueue and Kafka, and more than three nodes: two cores cannot carry more."""


def _ratios(report: Report, scenarios: Sequence[Scenario], systems: Sequence[System]) -> str:
    names = {one.key: one.name for one in systems}
    titles = {one.key: one.title for one in scenarios}
    lines = ["## Ratios", "", "| what | beside | ratio |", "|---|---|---:|"]
    for row in rows(report, scenarios):
        ratio = f"**{row.ratio:.2f}**" if row.ratio < 1 else f"{row.ratio:.2f}"
        lines.append(f"| {titles[row.scenario]}: {row.metric.title} | {names[row.peer]} | {ratio} |")
    return "\n".join(lines)


def _section(scenario: Scenario, outcome: Outcome, systems: Sequence[System]) -> str:
    names = {one.key: one.name for one in systems}
    size = "" if outcome.nodes == 1 else f", {outcome.nodes} nodes"
    head = " | ".join(f"{one.title} ({one.unit})" for one in scenario.metrics)
    lines = [f"## {scenario.title}{size}", "", f"| system | {head} |", "|---|" + "---:|" * len(scenario.metrics)]
    for result in outcome.results:
        if result.samples:
            cells = " | ".join(_cell(result, one) for one in scenario.metrics)
            lines.append(f"| {names[result.system]} | {cells} |")
    drawing = drawing_name(outcome, scenario.metrics[0])
    return "\n".join([*lines, "", f"![{scenario.title}{size}](images/{drawing})"])


def _cell(result: Result, metric: Metric) -> str:
    middle = result.median(metric.key)
    low, high = result.spread(metric.key)
    return f"{shown(middle or 0.0)} ({shown(low)} to {shown(high)})"


# --- drawings ------------------------------------------------------------------------------------------------------


def drawing_name(outcome: Outcome, metric: Metric) -> str:
    return f"compare-{outcome.scenario}-{outcome.nodes}-{metric.key}.svg"


def drawing(outcome: Outcome, metric: Metric, systems: Sequence[System]) -> str:
    """Bars with their spread; readable on light and dark grounds."""
    names = {one.key: one.name for one in systems}
    shown_results = [one for one in outcome.results if one.samples]
    widest = max((one.spread(metric.key)[1] for one in shown_results), default=1.0) or 1.0
    bars = "".join(
        _bar(at, names[one.system], one, metric, widest, one.system in ALL_OURS) for at, one in enumerate(shown_results)
    )
    better = "more is better" if metric.more_is_better else "less is better"
    height = 34 + 30 * len(shown_results)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 640 {height}" font-family="sans-serif" font-size="13">'
        "<style>text{fill:#222}.ours{fill:#0969da}.peer{fill:#8c959f}line{stroke:#222}"
        "@media(prefers-color-scheme:dark){text{fill:#eee}line{stroke:#eee}}</style>"
        f'<text x="4" y="18">{escape(metric.title)}, {escape(metric.unit)} ({better})</text>{bars}</svg>\n'
    )


def _bar(at: int, name: str, result: Result, metric: Metric, widest: float, is_ours: bool) -> str:
    y, scale = 30 + 30 * at, 330 / widest
    middle = result.median(metric.key) or 0.0
    low, high = result.spread(metric.key)
    kind = "ours" if is_ours else "peer"
    return (
        f'<text x="4" y="{y + 15}">{escape(name)}</text>'
        f'<rect class="{kind}" x="190" y="{y}" width="{middle * scale:.1f}" height="20"/>'
        f'<line x1="{190 + low * scale:.1f}" x2="{190 + high * scale:.1f}" y1="{y + 10}" y2="{y + 10}"/>'
        f'<text x="{196 + high * scale:.1f}" y="{y + 15}">{shown(middle)}</text>'
    )
