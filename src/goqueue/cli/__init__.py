"""The program `goqueue`. A command's module is loaded when the command is used, so that help comes at once."""

from __future__ import annotations

from importlib import import_module
from typing import Final, NamedTuple

import click

from goqueue import __version__

DEFAULT_SERVER: Final = "http://127.0.0.1:8080"


class Lazy(NamedTuple):
    """Where a command is, and the line that help shows for it."""

    target: str
    summary: str


COMMANDS: Final = {
    "serve": Lazy("goqueue.cli.serve:serve", "Run a node until SIGTERM or Ctrl-C."),
    "cluster": Lazy("goqueue.cli.cluster:cluster", "Run a cluster on this machine, and show how a cluster is."),
    "topic": Lazy("goqueue.cli.topic:topic", "Create, list, describe, alter and delete topics."),
    "produce": Lazy("goqueue.cli.produce:produce", "Publish messages."),
    "consume": Lazy("goqueue.cli.consume:consume", "Read messages, or take them as a member of a group."),
    "delayed": Lazy("goqueue.cli.delayed:delayed", "List, show and cancel delayed messages."),
    "dlq": Lazy("goqueue.cli.dlq:dlq", "List, show, redrive and delete dead letters."),
    "group": Lazy("goqueue.cli.group:group", "List, describe, move and delete consumer groups."),
    "txn": Lazy("goqueue.cli.txn:txn", "List, describe and abort transactions."),
    "trace": Lazy("goqueue.cli.trace:trace_group", "List, show and search traces of messages."),
    "schema": Lazy("goqueue.cli.schema:schema", "List, show, register and compare schemas."),
    "acl": Lazy("goqueue.cli.acl:acl", "Add, list, delete and explain rules of access control."),
    "pipeline": Lazy("goqueue.cli.pipeline:pipeline_group", "Move and study messages in bulk, on Spark."),
    "log": Lazy("goqueue.cli.log:log", "Look into stored files, without a node."),
    "version": Lazy("goqueue.cli.version:version", "Show the version."),
}


class LazyGroup(click.Group):
    """Finds commands in `COMMANDS` and turns every error into a line and an exit code."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, _, attribute = COMMANDS[cmd_name].target.partition(":")
        command = getattr(import_module(module), attribute)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, lazy.summary) for name, lazy in COMMANDS.items()])

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except (click.ClickException, click.Abort, click.exceptions.Exit):
            raise
        except Exception as error:
            from goqueue.cli.failures import end_of

            if ctx.params["debug"]:
                raise
            raise end_of(error) from error


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message="%(prog)s %(version)s")
@click.option("--server", envvar="GOQUEUE_SERVER", default=DEFAULT_SERVER, show_default=True, help="The broker's URL.")
@click.option("--output", type=click.Choice(["table", "json"]), default="table", help="How to show answers.")
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
def app(server: str, output: str, debug: bool) -> None:
    """GoQueue: a broker that is both a log and a queue.

    Exit codes: 0 done, 1 refused or damaged, 2 wrong usage, 3 no answer from the broker.
    """


def main() -> None:
    app(prog_name="goqueue")
