"""`goqueue pipeline`: list, run, report, demo. Spark is loaded when a pipeline runs, and not before."""

from __future__ import annotations

import time
from contextlib import nullcontext
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from goqueue.base.errors import InvalidField
from goqueue.base.times import parse_duration_ms
from goqueue.cli.failures import Misused
from goqueue.cli.options import CommandGroup, long_output_option, output_option, pairs, server_option
from goqueue.cli.pipeline_failures import told_plainly
from goqueue.cli.pipeline_file import LAKE_MODULES, FileRun, check, explain, new, run_file, test
from goqueue.cli.pipeline_forget import forget
from goqueue.cli.pipeline_serve import maintain, pause, replay, resume, serve
from goqueue.cli.show import print_table, remark, render, show_rows, time_text
from goqueue.pipeline import human
from goqueue.pipeline.running import METRICS, PIPELINES, Pipeline, Run, Summary, needs_spark, pipeline

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from pyspark.sql import SparkSession


def _topics(ctx: click.Context, param: click.Parameter, given: tuple[str, ...]) -> tuple[str, ...]:
    names = [name.strip() for text in given for name in text.split(",")]
    return tuple(dict.fromkeys(name for name in names if name))


def _every(ctx: click.Context, param: click.Parameter, value: str | None) -> float | None:
    try:
        return None if value is None else parse_duration_ms(value, "every") / 1000
    except InvalidField as error:
        raise click.BadParameter(error.message, ctx, param) from None


lake_option = click.option(
    "--lake", envvar="GOQUEUE_LAKE", required=True, metavar="DIR", help="The lake: a folder, or object storage's URL."
)
master_option = click.option(
    "--master", metavar="URL", help="Spark's master, like spark://host:7077; default local[*,4]."
)


@click.group("pipeline", cls=CommandGroup)
def pipeline_group() -> None:
    """Move and study messages in bulk, on Spark."""


@pipeline_group.command("list")
@click.argument("name", required=False, type=click.Choice(list(PIPELINES)), metavar="[NAME]")
@click.option("--lake", envvar="GOQUEUE_LAKE", metavar="DIR", help="Show what ran on this lake, too.")
@output_option
@told_plainly
def list_(name: str | None, lake: str | None, output: str) -> None:
    """List the pipelines, or the options of one; with --lake what each did there."""
    if name is not None:
        _show_options(pipeline(name), output)
        return
    found = [pipeline(one) for one in PIPELINES]
    if lake is not None:
        _show_counters(found, lake, output)
        return
    show_rows(
        output,
        [{"name": one.NAME, "summary": one.SUMMARY_LINE, "options": one.OPTIONS} for one in found],
        ("PIPELINE", "WHAT IT DOES"),
        [(one.NAME, one.SUMMARY_LINE) for one in found],
    )


def _what_to_run(ctx: click.Context, param: click.Parameter, given: str) -> str | Path:
    """One of the ready pipelines, or a file."""
    if given.endswith(".toml"):
        return Path(given)
    return str(click.Choice(list(PIPELINES)).convert(given, param, ctx))


@pipeline_group.command()
@click.argument("name", callback=_what_to_run, metavar="NAME|FILE.toml")
@click.option("--topics", multiple=True, callback=_topics, metavar="A,B", help="The topics; repeatable.")
@click.option("--lake", envvar="GOQUEUE_LAKE", metavar="DIR", help="The lake: a folder, or object storage's URL.")
@click.option("--once", is_flag=True, help="Do what there is to do, and end; the default.")
@click.option("--every", callback=_every, metavar="SPAN", help="Again and again, so often, like 10s; Ctrl-C ends it.")
@master_option
@click.option("--url", metavar="URL", help="The node's REST door; default --server.")
@click.option("--kafka", metavar="HOST:PORT", help="The node's Kafka door, where REST cannot be reached.")
@click.option("--dry-run", is_flag=True, help="Say what would be done, and change nothing.")
@click.option("--from-scratch", is_flag=True, help="Of a file: forget how far it is, and read everything again.")
@click.option(
    "-o",
    "--option",
    "options",
    multiple=True,
    callback=pairs("option"),
    metavar="KEY=VALUE",
    help="An option of the pipeline; `goqueue pipeline list NAME` shows them.",
)
@server_option
@long_output_option
@told_plainly
def run(
    name: str | Path,
    topics: tuple[str, ...],
    lake: str | None,
    once: bool,
    every: float | None,
    master: str | None,
    url: str | None,
    kafka: str | None,
    dry_run: bool,
    from_scratch: bool,
    options: list[tuple[str, str]],
    server: str,
    output: str,
) -> None:
    """Run one pipeline: archive, replay, compact, rates, latency, dlq, quality, report, or a file of your own."""
    if once and every is not None:
        raise Misused("Choose one of --once and --every.")
    if isinstance(name, Path):
        if topics or options or dry_run:
            raise Misused(
                "A file says its topics and options itself; `goqueue pipeline check` tries it without running."
            )
        asked_file = FileRun(
            name, lake, every, from_scratch, master, server, {"url": url, "kafka.bootstrap.servers": kafka}
        )
        _run_file(asked_file, output)
        return
    if lake is None:
        raise Misused("Say where the lake is: --lake DIR.")
    found = pipeline(name)
    chosen = _checked(found, options)
    door = url or (None if kafka else server)
    asked = Run(kafka, door, topics, lake, every is None, every, dry_run, chosen)
    with _session(found, master) as spark:
        _rounds(found, spark, asked, output)


def _run_file(asked: FileRun, output: str) -> None:
    try:
        _show(run_file(asked), output)
    except KeyboardInterrupt:
        if asked.every_s is None:
            raise
        remark("Stopped; the next run goes on from here.")


@pipeline_group.command()
@lake_option
@click.option(
    "-o",
    "--option",
    "options",
    multiple=True,
    callback=pairs("option"),
    metavar="KEY=VALUE",
    help="An option of the report.",
)
@long_output_option
@told_plainly
def report(lake: str, options: list[tuple[str, str]], output: str) -> None:
    """Make one HTML page of all that the other pipelines found in the lake. Needs neither Spark nor a node."""
    found = pipeline("report")
    _rounds(found, None, Run(None, None, (), lake, options=_checked(found, options)), output)


@pipeline_group.command()
@click.option("--seed", type=int, default=7, show_default=True, help="The same seed makes the same traffic.")
@click.option("--scale", type=click.IntRange(500), default=50_000, show_default=True, help="About so many messages.")
@click.option(
    "--dir",
    "folder",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("goqueue-demo"),
    show_default=True,
    help="Where the node's data and the lake go.",
)
@click.option("--keep", is_flag=True, help="Leave the node running until Ctrl-C, to look around.")
@master_option
@told_plainly
def demo(seed: int, scale: int, folder: Path, keep: bool, master: str | None) -> None:
    """Start a node, let a shop trade for an hour, run the pipelines on it, and say where to look."""
    from goqueue.pipeline.demo.demo import Demo, run_demo

    run_demo(Demo(folder, seed, scale, keep, master), say=click.echo)


for _command in (check, explain, forget, maintain, new, pause, replay, resume, serve, test):
    pipeline_group.add_command(_command)


# --- running ------------------------------------------------------------------------------------------


def _checked(found: Pipeline, given: list[tuple[str, str]]) -> dict[str, str]:
    for name, _ in given:
        if name not in found.OPTIONS:
            near = get_close_matches(name, found.OPTIONS, 1)
            hint = f"; did you mean {near[0]!r}?" if near else "."
            known = f"`goqueue pipeline list {found.NAME}` shows them."
            raise Misused(f"The pipeline {found.NAME} has no option {name!r}{hint}\n{known}")
    return dict(given)


def _session(found: Pipeline, master: str | None) -> AbstractContextManager[SparkSession | None]:
    """Spark for as long as the run takes: leaving the block stops it."""
    if not needs_spark(found):
        return nullcontext(None)
    from goqueue.pipeline.session import session
    from goqueue.pipeline.session.quiet import quiet

    spark = session(f"goqueue {found.NAME}", master, worker_modules=LAKE_MODULES)
    quiet(spark, "ERROR")  # what people should know, pipelines say themselves
    return spark


def _rounds(found: Pipeline, spark: SparkSession | None, asked: Run, output: str) -> None:
    """One round, or one every so often until Ctrl-C, which then is no failure."""
    try:
        while True:
            began = time.monotonic()
            _show(_round(found, spark, asked), output)
            if asked.every_s is None:
                return
            time.sleep(max(0.0, began + asked.every_s - time.monotonic()))
    except KeyboardInterrupt:
        if asked.every_s is None:
            raise
        remark("Stopped; the next run goes on from here.")


def _round(found: Pipeline, spark: SparkSession | None, asked: Run) -> Summary:
    from goqueue.pipeline.live import watched
    from goqueue.pipeline.performing import perform

    with watched(found.NAME) as progress:
        return perform(found, spark, asked, progress)


# --- showing ------------------------------------------------------------------------------------------


def _show(summary: Summary, output: str) -> None:
    render(output, summary, lambda: show_summary(summary), [summary.pipeline])
    for warning in summary.warnings:
        remark(f"warning: {warning}")


def show_summary(summary: Summary) -> None:
    """Plain facts line by line, then those that are tables."""
    speed = human.rate(summary.rows_in / summary.seconds) if summary.seconds > 0 else "-"
    lines = [
        ("pipeline", summary.pipeline),
        ("rows in", f"{summary.rows_in:,}"),
        ("rows out", f"{summary.rows_out:,}"),
        ("batches", f"{summary.batches:,}"),
        ("took", f"{human.span(summary.seconds * 1e6)} ({speed})"),
    ]
    plain = {name: value for name, value in summary.facts.items() if not _is_table(value)}
    lines += [(name.replace("_", " "), _fact(value)) for name, value in plain.items()]
    wide = max(len(name) for name, _ in lines)
    for name, value in lines:
        click.echo(f"{name:<{wide}}  {value}")
    for name, value in summary.facts.items():
        if _is_table(value):
            _show_rows(name, value)


def _is_table(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(one, dict) for one in value)


def _fact(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {_fact(one)}" for name, one in value.items()) or "-"
    if isinstance(value, list | tuple):
        return ", ".join(map(_fact, value)) or "-"
    return f"{value:,}" if isinstance(value, int | float) and not isinstance(value, bool) else str(value)


def _show_rows(name: str, rows: list[dict[str, Any]]) -> None:
    heads = list(dict.fromkeys(head for row in rows for head in row))
    click.echo(f"\n{name.replace('_', ' ')}:")
    cells = [[row.get(head, "-") for head in heads] for row in rows]
    print_table([head.replace("_", " ").upper() for head in heads], cells)


def _show_options(found: Pipeline, output: str) -> None:
    if output == "table":
        click.echo(f"{found.NAME}: {found.SUMMARY_LINE}\n")
    told = {"name": found.NAME, "summary": found.SUMMARY_LINE, "options": found.OPTIONS}
    show_rows(output, told, ("OPTION", "WHAT IT DOES"), found.OPTIONS.items())


def _show_counters(found: list[Pipeline], lake: str, output: str) -> None:
    from goqueue.pipeline.counters import Counters, all_counters

    ran = all_counters(f"{lake.rstrip('/')}/{METRICS}")
    heads = ("PIPELINE", "RUNS", "FAILED", "ROWS IN", "ROWS OUT", "LAST RUN", "TOOK", "WHAT IT DOES")
    rows = []
    for one in found:
        done = ran.get(one.NAME, Counters())
        last = time_text(round(done.last_run_timestamp_seconds * 1000)) if done.runs else "-"
        took = human.span(done.last_run_seconds * 1e6) if done.runs else "-"
        numbers = int(done.runs), int(done.failures), int(done.rows_in), int(done.rows_out)
        rows.append((one.NAME, *numbers, last, took, one.SUMMARY_LINE))
    show_rows(output, ran, heads, rows)
