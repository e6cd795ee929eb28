"""The demo from door to door: a node, an hour of trade, the pipelines one after another, and where to look."""

from __future__ import annotations

import shutil
import signal
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from goqueue.pipeline import human
from goqueue.pipeline.demo.node import DemoNode
from goqueue.pipeline.demo.shop import TOPICS
from goqueue.pipeline.demo.trade import Trade
from goqueue.pipeline.link.errors import PipelineError
from goqueue.pipeline.live import watched
from goqueue.pipeline.performing import perform
from goqueue.pipeline.running import Run, Summary, needs_spark, pipeline

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LEDGER: Final = "ledger.jsonl"
RULES: Final = "rules.sql"
_RULES: Final = """-- seconds_on_page: clicks
get_json_object(text, '$.seconds') >= 0.0;
"""
Say = Callable[[str], None]


class Demo(msgspec.Struct, frozen=True):
    """What is asked for. `keep` leaves the node running until Ctrl-C."""

    folder: Path
    seed: int = 7
    scale: int = 50_000
    keep: bool = False
    master: str | None = None

    @property
    def lake(self) -> str:
        return str(self.folder / "lake")


def run_demo(asked: Demo, say: Say) -> list[Summary]:
    """All of it; the summary of every run of a pipeline."""
    from goqueue.pipeline.session import session
    from goqueue.pipeline.session.java import find_java

    if find_spec("pyspark") is None:  # before an hour of trade, not after it
        raise ModuleNotFoundError("No module named 'pyspark'", name="pyspark")
    find_java()
    began = time.monotonic()
    _make_room(asked.folder)
    with DemoNode(asked.folder / "data") as node:
        say(f"A node serves at {node.url} (Kafka at {node.kafka}).")
        with watched("demo") as progress:
            progress.step("starting Spark")
            spark = session("goqueue demo", asked.master)
            spark.sparkContext.setLogLevel("ERROR")
        with spark:
            done = walked(asked, node, spark, say)
        say(_where_to_look(asked, time.monotonic() - began))
        if asked.keep:
            _wait_for_an_end(say)
    return done


def walked(asked: Demo, node: DemoNode, spark: SparkSession, say: Say) -> list[Summary]:
    """Half an hour of trade and what it looks like, the other half, and then every pipeline on all of it."""
    trade = Trade(node.kafka, node.url, asked.folder / LEDGER, lambda: _look(asked, node))
    with watched("demo") as progress:
        trade.open(asked.seed, asked.scale, time.time_ns() // 1_000_000)
        trade.first_half(progress)
    stops = _stops(asked, node)
    done = [_stop(name, stops[name], asked, node, spark, say) for name in ("archive", "quality")]
    with watched("demo") as progress:
        trade.second_half(progress)
    return done + [_stop(name, options, asked, node, spark, say) for name, options in stops.items()]


def _look(asked: Demo, node: DemoNode) -> None:
    """How far groups are behind, for the report."""
    from goqueue.pipeline.analytics.lag import sample

    sample(_run(asked, node, {}))


def _stop(name: str, options: dict[str, str], asked: Demo, node: DemoNode, spark: SparkSession, say: Say) -> Summary:
    found = pipeline(name)
    with watched(name) as progress:
        done = perform(found, spark if needs_spark(found) else None, _run(asked, node, options), progress)
    say(_line(done))
    return done


def _stops(asked: Demo, node: DemoNode) -> dict[str, dict[str, str]]:
    """The pipelines in the order in which one builds on another, with their options."""
    rules = asked.folder / RULES
    rules.write_text(_RULES)
    return {
        "archive": {},
        "rates": {},
        "latency": {"traces": str(node.traces.absolute())},
        "dlq": {},
        "quality": {"rules": str(rules)},
        "compact": {},
        "report": {},
    }


def _run(asked: Demo, node: DemoNode, options: dict[str, str]) -> Run:
    return Run(node.kafka, node.url, tuple(TOPICS), asked.lake, options=options)


def _make_room(folder: Path) -> None:
    """The last demo's folder may go; anything else is not ours."""
    if (folder / LEDGER).exists():
        shutil.rmtree(folder)
    if folder.exists() and any(folder.iterdir()):
        raise PipelineError(f"{folder} has other things in it; choose another folder with --dir.")
    folder.mkdir(parents=True, exist_ok=True)


def _line(done: Summary) -> str:
    spent = human.span(done.seconds * 1e6)
    return f"{done.pipeline:<8}  {done.rows_in:>9,} rows in  {done.rows_out:>9,} out  {spent:>8}"


def _where_to_look(asked: Demo, seconds: float) -> str:
    lake = asked.lake
    return "\n".join(
        [
            "",
            f"The demo took {human.span(seconds * 1e6)}. Where to look:",
            f"  {lake}/report/index.html",
            "      the report: open it in a browser, or send it to a colleague",
            f"  goqueue pipeline list --lake {lake}",
            "      what ran, and how much it did",
            f"  {lake}/messages, {lake}/studies/*, {lake}/quarantine",
            "      Delta tables, for Spark, DuckDB, pandas and others",
            f"  {asked.folder / LEDGER}",
            "      what was really published, to check the pipelines against",
        ]
    )


def _wait_for_an_end(say: Say) -> None:
    say("\nThe node still runs; Ctrl-C stops it.")
    try:
        signal.pause()
    except KeyboardInterrupt:
        say("Stopped.")
