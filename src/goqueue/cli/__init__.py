"""The program `goqueue`. A command's module is loaded when the command is used, so that help comes at once."""

from __future__ import annotations

from importlib import import_module
from typing import Final, NamedTuple

import click

from goqueue import __version__
from goqueue.cli.connecting import DEFAULT_SERVER


class Lazy(NamedTuple):
    """Where a command is, and the line that help shows for it."""

    target: str
    summary: str


COMMANDS: Final = {
    "serve": Lazy("goqueue.cli.serve:serve", "Run a node until SIGTERM or Ctrl-C."),
    "demo": Lazy("goqueue.cli.demo:demo", "Show in a minute what GoQueue does, on a node of its own."),
    "context": Lazy("goqueue.cli.context:context_group", "Name brokers, and choose which one commands talk to."),
    "status": Lazy("goqueue.cli.status:status", "Show the broker at a glance, and what is wrong with it."),
    "top": Lazy("goqueue.cli.top:top", "Watch topics, groups, queues, lanes and shards live."),
    "cluster": Lazy("goqueue.cli.cluster:cluster", "Run a cluster on this machine, and show how a cluster is."),
    "topic": Lazy("goqueue.cli.topic:topic", "Create, list, describe, alter and delete topics."),
    "produce": Lazy("goqueue.cli.produce:produce", "Publish messages."),
    "consume": Lazy("goqueue.cli.consume:consume", "Read messages, or take them as a member of a group."),
    "queue": Lazy("goqueue.cli.queue:queue", "List and show queues: ready, leased, delayed, lanes, ages."),
    "copy": Lazy("goqueue.cli.copy:copy", "Copy messages with keys, headers, times and priorities."),
    "delayed": Lazy("goqueue.cli.delayed:delayed", "List, show and cancel delayed messages."),
    "dlq": Lazy("goqueue.cli.dlq:dlq", "List, show, redrive and delete dead letters."),
    "group": Lazy("goqueue.cli.group:group", "List, describe, move and delete consumer groups."),
    "worker": Lazy("goqueue.cli.worker:worker", "Run the tasks of an app until SIGTERM or Ctrl-C."),
    "txn": Lazy("goqueue.cli.txn:txn", "List, describe and abort transactions."),
    "trace": Lazy("goqueue.cli.trace:trace_group", "List, show and search traces of messages."),
    "user": Lazy("goqueue.cli.user:user", "Add, list, change and delete users."),
    "key": Lazy("goqueue.cli.key:key", "Create, list, rotate and revoke API keys."),
    "tenant": Lazy("goqueue.cli.tenant:tenant", "Create, list, show and delete tenants, and tell what they have."),
    "cert": Lazy("goqueue.cli.cert:cert", "Make throw-away certificates."),
    "schema": Lazy("goqueue.cli.schema:schema", "List, show, register, compare and delete schemas."),
    "acl": Lazy("goqueue.cli.acl:acl", "Add, list, delete and explain rules of access control."),
    "quota": Lazy("goqueue.cli.quota:quota", "Set, list and delete limits of users and clients."),
    "pipeline": Lazy("goqueue.cli.pipeline:pipeline_group", "Move and study messages in bulk, on Spark."),
    "bench": Lazy("goqueue.cli.bench:bench", "Put load on a broker and time it."),
    "backup": Lazy(
        "goqueue.cli.backup:backup", "Back up a node or a cluster into a directory, or into a bucket of S3."
    ),
    "restore": Lazy("goqueue.cli.backup:restore", "Make a data directory from a backup."),
    "doctor": Lazy(
        "goqueue.cli.doctor:doctor",
        "Look for what is wrong: settings, disk, clocks, versions, store, descriptors, file system.",
    ),
    "completion": Lazy(
        "goqueue.cli.completion:completion", "Print what makes a shell complete commands, options and names."
    ),
    "kubernetes": Lazy("goqueue.cli.kubernetes:kubernetes", "For pods: ask the Kubernetes cluster that they run in."),
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
@click.option(
    "--server",
    envvar="GOQUEUE_SERVER",
    metavar="URL",
    help=f"The broker's URL; default from the context, or {DEFAULT_SERVER}.",
)
@click.option("--context", envvar="GOQUEUE_CONTEXT", metavar="NAME", help="The context; see `goqueue context`.")
@click.option(
    "-o", "--output", type=click.Choice(["table", "json", "yaml", "name"]), default="table", help="How to show answers."
)
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
def app(server: str | None, context: str | None, output: str, debug: bool) -> None:
    """GoQueue: a broker that is both a log and a queue.

    Exit codes: 0 done, 1 refused or damaged, 2 wrong usage, 3 no answer from the broker.
    """


def main() -> None:
    app(prog_name="goqueue")
