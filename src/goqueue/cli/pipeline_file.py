"""`goqueue pipeline run|new|check|explain|test FILE.toml`: pipelines that people write themselves."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import click

from goqueue.cli.failures import Failed, Misused
from goqueue.cli.options import output_option, server_option
from goqueue.cli.pipeline_failures import told_plainly
from goqueue.cli.show import print_table, remark, render

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from goqueue.pipeline.definition.planning import PipelinePlan
    from goqueue.pipeline.definition.reading import PipelineFile
    from goqueue.pipeline.definition.testing import Verdict
    from goqueue.pipeline.running import Summary

LAKE_MODULES: Final = ("deltalake",)  # what executors need to read and write tables
file_argument = click.argument("file", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE.toml")


class FileRun(NamedTuple):
    """What `pipeline run FILE.toml` was asked for."""

    path: Path
    lake: str | None
    every_s: float | None
    from_scratch: bool
    master: str | None
    server: str
    doors: Mapping[str, str | None]


def run_file(run: FileRun) -> Summary:
    """Checks the pipeline and runs it; with `every_s` until Ctrl-C."""
    from goqueue.pipeline.definition.performing import Asked, perform
    from goqueue.pipeline.live import watched

    file = read_pipeline(run.path)
    lake = run.lake or file.place(file.definition.lake)
    asked = Asked(node_options(file, run.server, run.doors), lake, run.every_s, run.from_scratch)
    with _session(file, run.master) as spark, watched(file.definition.name) as progress:
        return perform(spark, file, asked, progress)


@click.command("new")
@click.argument("name")
@click.option("--dir", "folder", type=click.Path(file_okay=False, path_type=Path), default=Path(), help="Where to.")
def new(name: str, folder: Path) -> None:
    """Write a pipeline to begin with, and its test: NAME.toml."""
    import re

    from goqueue.pipeline.definition.template import template

    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_-]{0,99}", name):
        raise Misused(f"{name!r} cannot be a pipeline's name: letters, digits, - and _, a letter first.")
    path = folder / f"{name}.toml"
    if path.exists():
        raise Misused(f"There is a file {path} already.")
    folder.mkdir(parents=True, exist_ok=True)
    path.write_text(template(name))
    click.echo(f"{path} is there. Change it, then:")
    click.echo(f"  goqueue pipeline check {path}\n  goqueue pipeline test {path}\n  goqueue pipeline run {path}")


@click.command()
@file_argument
@server_option
@told_plainly
def check(file: Path, server: str) -> None:
    """Say what is wrong in a pipeline's file, before it runs: names, columns, types, watermarks, output modes."""
    found = read_pipeline(file)
    with _session(found, None) as spark:
        _plan(spark, found, server)
    asked = found.definition
    click.echo(f"{file}: {len(asked.source)} sources, {len(asked.step)} steps, {len(asked.sink)} sinks: fine")


@click.command()
@file_argument
@server_option
@output_option
@told_plainly
def explain(file: Path, server: str, output: str) -> None:
    """Show what a pipeline does: each view's columns, where rows go and how, and what is kept between batches."""
    found = read_pipeline(file)
    with _session(found, None) as spark:
        planned = _plan(spark, found, server)
        views = {name: rows.dtypes for name, rows in planned.views.frames.items()}
    rows = _sink_rows(planned)
    data = {"views": {name: dict(types) for name, types in views.items()}, "sinks": rows}

    def table() -> None:
        for name, types in views.items():
            click.echo("\n".join((name, *(f"  {column}  {kind}" for column, kind in types))))
        click.echo("")
        print_table(("SINK", "FROM", "MODE", "OUTPUT", "KEPT"), [tuple(row.values()) for row in rows])

    render(output, data, table, views)


@click.command("test")
@file_argument
@server_option
@output_option
@told_plainly
def test(file: Path, server: str, output: str) -> None:
    """Run the [[test]]s of a pipeline's file: rows in, rows out. No node is needed."""
    from goqueue.pipeline.definition.planning import empty_frames
    from goqueue.pipeline.definition.testing import run_tests

    found = read_pipeline(file)
    if not found.definition.test:
        raise Failed(f"{file} has no [[test]].")
    began = time.monotonic()
    with (
        _session(found, None) as spark,
        empty_frames(spark, found, found.place(found.definition.lake), node_options(found, server)) as like,
    ):
        verdicts = list(run_tests(spark, found, like))
    render(output, verdicts, lambda: _show_verdicts(verdicts), (one.test for one in verdicts))
    remark(f"{len(verdicts)} tests in {time.monotonic() - began:.1f} s")
    if any(one.differences for one in verdicts):
        raise SystemExit(1)


def _show_verdicts(verdicts: Sequence[Verdict]) -> None:
    for one in verdicts:
        click.echo(f"{'FAILED' if one.differences else 'passed'}  {one.test}")
        for line in one.differences:
            click.echo(f"        {line}")


def read_pipeline(path: Path) -> PipelineFile:
    from goqueue.pipeline.definition.reading import read_file

    return read_file(path)


def node_options(file: PipelineFile, server: str, flags: Mapping[str, str | None] | None = None) -> dict[str, str]:
    """The connector's options: a flag wins over the file, the file over the default server."""
    said = file.definition.node
    in_file = {"url": said.url, "kafka.bootstrap.servers": said.kafka}
    for given in (flags or {}, in_file, {"url": server}):
        chosen = {name: value for name, value in given.items() if value is not None}
        if chosen:
            return chosen
    return {}


def _session(file: PipelineFile, master: str | None) -> SparkSession:
    from goqueue.pipeline.session import session
    from goqueue.pipeline.session.quiet import quiet

    asked = file.definition
    tables = [*asked.tables(), *(one.table for one in asked.source if one.table is not None)]
    needs = LAKE_MODULES if tables else ()
    spark = session(f"goqueue {asked.name}", master, settings=asked.spark, worker_modules=needs)
    quiet(spark)
    return spark


def _plan(spark: SparkSession, file: PipelineFile, server: str) -> PipelinePlan:
    from goqueue.pipeline.definition.planning import empty_frames, plan

    with empty_frames(spark, file, file.place(file.definition.lake), node_options(file, server)) as empty:
        return plan(spark, file, empty)


def _sink_rows(planned: PipelinePlan) -> list[dict[str, str]]:
    return [
        {
            "sink": one.sink.target,
            "from": one.sink.view,
            "mode": one.sink.mode,
            "output": one.sink.output_mode if one.is_stream else "all rows",
            "kept": ", ".join(state.split(" ")[0] for state in one.state) or "-",
        }
        for one in planned.sinks
    ]
