"""`goqueue serve`: a node in the foreground."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click
import uvloop

from goqueue.base.errors import DiskFull, Startup
from goqueue.base.settings import Settings, load_settings
from goqueue.cli.cluster_extra import require_cluster_extra
from goqueue.cli.logs import set_up_logs
from goqueue.cli.started_block import block

if TYPE_CHECKING:
    from goqueue.base.started import Started
    from goqueue.node import Node

logger = logging.getLogger(__name__)

# How long a busy thread may keep the interpreter from the event loop; the default of 5 ms is felt by every request.
SWITCH_S: Final = 0.0005


@click.command()
@click.option("--data", "data_dir", metavar="DIR", help="Data directory (default ./data).")
@click.option("--rest", metavar="HOST:PORT", help="REST listener or 'off'; port 0 picks a free one.")
@click.option("--kafka", metavar="HOST:PORT", help="Kafka listener or 'off'; port 0 picks a free one.")
@click.option("--sqs", metavar="HOST:PORT", help="SQS listener or 'off'; port 0 picks a free one.")
@click.option("--grpc", metavar="HOST:PORT", help="gRPC listener or 'off'; port 0 picks a free one.")
@click.option("--config", type=click.Path(path_type=Path), metavar="FILE", help="Settings file (TOML).")
@click.option("--fsync", metavar="POLICY", help="When messages are safe: always, interval or never.")
@click.option("--shards", metavar="N", help="How many shards the node has; more can be added later, none taken away.")
@click.option("--processes", metavar="N", help="How many processes share the work on this machine.")
@click.option("--insecure", is_flag=True, help="Listen to other machines without asking who they are.")
@click.option("--log-level", metavar="LEVEL", help="debug, info, warning or error.")
def serve(
    data_dir: str | None,
    rest: str | None,
    kafka: str | None,
    sqs: str | None,
    grpc: str | None,
    config: Path | None,
    fsync: str | None,
    shards: str | None,
    processes: str | None,
    insecure: bool,
    log_level: str | None,
) -> None:
    """Run a node until SIGTERM or Ctrl-C."""
    flags = {
        "data.dir": data_dir,
        "rest.listen": rest,
        "kafka.listen": kafka,
        "sqs.listen": sqs,
        "grpc.listen": grpc,
        "log.fsync": fsync,
        "node.shards": shards,
        "node.processes": processes,
        "logging.level": log_level,
        "security.insecure": "on" if insecure else None,
    }
    try:
        given = {key: text for key, text in flags.items() if text is not None}
        settings = load_settings(config, os.environ, given, socket.gethostname())
        if settings.cluster.store:
            require_cluster_extra()
        set_up_logs(settings.logging)
        sys.setswitchinterval(SWITCH_S)
        uvloop.run(_serve_all(settings) if is_shared(settings) else _serve(settings))
    except (Startup, DiskFull) as error:
        click.echo(f"error: {error.message} ({error.code})", err=True)
        sys.exit(1)


def is_shared(settings: Settings) -> bool:
    """Several processes, or what several left for one."""
    if settings.node.processes > 1:
        return True
    from goqueue.cli.processes import was_shared

    return not settings.cluster.store and was_shared(Path(settings.data.dir))


async def _serve_all(settings: Settings) -> None:
    from goqueue.cli.processes import Supervisor

    cores = len(os.sched_getaffinity(0))
    if settings.node.processes > cores:
        extra = {"processes": settings.node.processes, "cores": cores}
        logger.warning("there are more processes than cores: the rest make nothing faster", extra=extra)
    await Supervisor(settings, _say).run()


def _say(text: str) -> None:
    click.echo(text)
    sys.stdout.flush()


async def _serve(settings: Settings) -> None:
    from goqueue.console import pages
    from goqueue.node import Node

    loop = asyncio.get_running_loop()
    asked_to_stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, asked_to_stop.set)
    node = Node(settings, pages(settings.rest.console_read_only))
    loop.add_signal_handler(signal.SIGHUP, node.reload)
    if settings.cluster.store:
        started = await started_unless_stopped(node, asked_to_stop)
        if started is None:
            click.echo("GoQueue has stopped before it was in its cluster.")
            return
    else:
        started = await node.start()
    settle_memory()
    click.echo(block(started))
    sys.stdout.flush()
    await asked_to_stop.wait()
    click.echo("GoQueue is stopping.")
    await node.stop()
    click.echo("GoQueue has stopped; everything accepted is safe.")


def settle_memory() -> None:
    """What lives from the start on lives to the end: the collector need not look at it again and again."""
    gc.collect()
    gc.freeze()


async def started_unless_stopped(node: Node, asked_to_stop: asyncio.Event) -> Started | None:
    """None if it is asked to stop while it waits for the store or for other nodes."""
    starting = asyncio.create_task(node.start())
    stopping = asyncio.create_task(asked_to_stop.wait())
    await asyncio.wait([starting, stopping], return_when=asyncio.FIRST_COMPLETED)
    if starting.done():
        stopping.cancel()
        return await starting
    starting.cancel()
    await asyncio.wait([starting])
    return None
