"""`goqueue pipeline serve|pause|resume|replay|maintain`: pipelines that are kept running, and orders to them."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from goqueue.base.errors import InvalidField
from goqueue.base.settings import parse_address
from goqueue.base.times import parse_duration_ms, parse_time_ms
from goqueue.cli.asking import confirm, yes_option
from goqueue.cli.failures import Misused
from goqueue.cli.options import output_option, server_option
from goqueue.cli.pipeline_failures import told_plainly
from goqueue.cli.pipeline_file import LAKE_MODULES, node_options, read_pipeline
from goqueue.cli.show import remark, show_rows
from goqueue.cli.stop_signals import StopSignals

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from goqueue.pipeline.definition.queries import Queries
    from goqueue.pipeline.definition.reading import PipelineFile

_LOOK_S: Final = 1.0
_WIND_DOWN_LOOK_S: Final = 0.05
_BATCH_S_MAX: Final = 20.0  # whoever ends a service kills it after half a minute or more, as Kubernetes does

name_argument = click.argument("name", metavar="NAME|FILE.toml")
folder_option = click.option(
    "--dir",
    "folder",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    default=Path(),
    help="The folder that is served, where NAME.toml is.",
)
lake_option = click.option(
    "--lake", envvar="GOQUEUE_LAKE", metavar="DIR", help="The lake of all of them; default what each file says."
)


@click.command()
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path), metavar="DIR")
@click.option("--every", default="10s", show_default=True, metavar="SPAN", help="How often a batch is made.")
@click.option(
    "--listen", default="127.0.0.1:8090", show_default=True, metavar="HOST:PORT", help="Page and metrics; 'off'."
)
@lake_option
@click.option("--master", metavar="URL", help="Spark's master, like spark://host:7077; default local[*,4].")
@server_option
@told_plainly
def serve(folder: Path, every: str, listen: str, lake: str | None, master: str | None, server: str) -> None:
    """Keep every pipeline of a folder running: restarted if it dies, replaced if its file changes.

    A file that cannot run is refused with a reason, and what ran before goes on. `goqueue pipeline pause`, `resume` and
    `replay` give orders to what runs. SIGTERM or Ctrl-C ends each pipeline after the batch that it is at.
    """
    from goqueue.pipeline.definition.performing import Asked
    from goqueue.pipeline.definition.queries import begin
    from goqueue.pipeline.definition.status_page import show
    from goqueue.pipeline.definition.supervising import PipelineSupervisor
    from goqueue.pipeline.lake.storage_failures import one_line

    if not any(folder.glob("*.toml")):
        remark(f"There is no pipeline in {folder} yet; files *.toml that come are run.")
    every_s, address = _span_s(every), _free_address(listen)

    def lake_of(file: PipelineFile) -> str:
        return lake or file.place(file.definition.lake)

    with StopSignals() as signals, _spark(master) as spark:
        signals.listen()  # Spark's own way with Ctrl-C is to break all batches off

        def start(file: PipelineFile) -> Queries:
            return begin(spark, file, Asked(node_options(file, server), lake_of(file), every_s))

        kept = PipelineSupervisor(folder, start, lambda file: node_options(file, server), lake_of, remark)
        shown = None if address is None else show(*address, kept.status)
        try:
            while not signals.is_asked:
                kept.look(time.monotonic(), lambda: signals.is_asked)
                time.sleep(_LOOK_S)
            remark("Stopping: each pipeline ends the batch that it is at.")
            kept.wind_down(_for_seconds(_BATCH_S_MAX))
        except KeyboardInterrupt:
            remark("Stopping at once.")
        except Exception as error:
            if not signals.is_asked:
                raise
            remark(f"Stopping: Spark has ended already: {one_line(error)}")
        finally:
            kept.stop()
            if shown is not None:
                shown.shutdown()
    remark("Stopped; the next start goes on from here.")


@contextmanager
def _spark(master: str | None) -> Iterator[SparkSession]:
    """A signal to a whole group of processes, as systemd sends it, ends Spark's JVM by itself."""
    from goqueue.pipeline.session import session
    from goqueue.pipeline.session.quiet import quiet

    spark = session("goqueue pipelines", master, worker_modules=LAKE_MODULES)
    quiet(spark)
    try:
        yield spark
    finally:
        with suppress(Exception):  # of Py4J or the system, if there is nothing left to stop
            spark.stop()


def _for_seconds(seconds: float) -> Callable[[], bool]:
    """Whether there is time left, asked after a short wait."""
    until = time.monotonic() + seconds

    def has_time() -> bool:
        time.sleep(_WIND_DOWN_LOOK_S)
        return time.monotonic() < until

    return has_time


@click.command()
@name_argument
@folder_option
@told_plainly
def pause(name: str, folder: Path) -> None:
    """Let a served pipeline stop after the batch that it is at. It goes on from there with `resume`."""
    from goqueue.pipeline.definition.serving import PAUSED

    file = _file_of(name, folder)
    file.with_suffix(PAUSED).touch()
    click.echo(f"{file.stem} is paused; `goqueue pipeline resume {name}` lets it go on.")


@click.command()
@name_argument
@folder_option
@told_plainly
def resume(name: str, folder: Path) -> None:
    """Let a paused pipeline go on."""
    from goqueue.pipeline.definition.serving import PAUSED

    file = _file_of(name, folder)
    if not file.with_suffix(PAUSED).exists():
        raise Misused(f"{file.stem} is not paused.")
    file.with_suffix(PAUSED).unlink()
    click.echo(f"{file.stem} goes on.")


@click.command()
@name_argument
@click.option("--from", "since", required=True, metavar="TIME", help="Like 2026-01-31T12:00:00Z; messages since then.")
@click.option("--again", is_flag=True, help="Also where rows that were written cannot be taken back.")
@folder_option
@lake_option
@yes_option
@told_plainly
def replay(name: str, since: str, again: bool, folder: Path, lake: str | None, yes: bool) -> None:
    """Read everything since a time again: after a fix, or for a new rule.

    A running `serve` does it at once, and else the next `serve` or `run`. Rows of tables that know their messages are
    deleted first, merges take them again; topics and files are refused without --again.
    """
    from goqueue.pipeline.definition.begin_again import ReplayOrder, order, what_replay_does

    path = _file_of(name, folder)
    file = read_pipeline(path)
    try:
        wanted = ReplayOrder(parse_time_ms(since, "from"), again)
    except InvalidField as error:
        raise Misused(error.message) from None
    for line in what_replay_does(file, lake or file.place(file.definition.lake), wanted):
        remark(line)
    if not yes:
        confirm(f"Replay {file.definition.name}?")
    order(path, wanted)
    click.echo(f"{file.definition.name} is read again from {since} on, as soon as it is served or run.")


@click.command()
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE.toml")
@lake_option
@output_option
@told_plainly
def maintain(file: Path, lake: str | None, output: str) -> None:
    """Look after a pipeline's tables now: old rows away, small files together, files nobody needs removed.

    `serve` does it by itself where the file has [maintenance]. Neither Spark nor a node is needed.
    """
    from goqueue.pipeline.definition.maintaining import maintain as maintain_tables

    found = read_pipeline(file)
    done = maintain_tables(found, lake or found.place(found.definition.lake), time.time_ns() // 10**6)
    rows = [(one.table, one.files, one.now, one.expired_rows, one.removed) for one in done]
    show_rows(output, done, ("TABLE", "FILES", "NOW", "ROWS EXPIRED", "FILES REMOVED"), rows)


def _span_s(every: str) -> float:
    try:
        return parse_duration_ms(every, "every") / 1000
    except InvalidField as error:
        raise Misused(error.message) from None


def _address(listen: str) -> tuple[str, int] | None:
    try:
        return parse_address(listen)
    except ValueError as error:
        raise Misused(f"--listen {error}") from None


def _free_address(listen: str) -> tuple[str, int] | None:
    """One that is taken is told before Spark is started."""
    address = _address(listen)
    try:
        if address is not None:
            socket.create_server(address).close()
    except OSError as error:
        raise Misused(f"--listen {listen}: {error.strerror or error}") from None
    return address


def _file_of(name: str, folder: Path) -> Path:
    path = Path(name) if name.endswith(".toml") else folder / f"{name}.toml"
    if not path.is_file():
        raise Misused(f"There is no file {path}; name it, or the folder with --dir.")
    return path
