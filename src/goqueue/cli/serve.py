"""`goqueue serve`: a node in the foreground."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import sys
from pathlib import Path
from typing import Final

import click
import uvloop

from goqueue.base.errors import DiskFull, Startup
from goqueue.base.settings import Settings, load_settings
from goqueue.cli.cluster_extra import require_cluster_extra
from goqueue.cli.logs import set_up_logs
from goqueue.console import pages
from goqueue.node import Node, Started

# How long a busy thread may keep the interpreter from the event loop; the default of 5 ms is felt by every request.
_SWITCH_S: Final = 0.0005


@click.command()
@click.option("--data", "data_dir", metavar="DIR", help="Data directory (default ./data).")
@click.option("--rest", metavar="HOST:PORT", help="REST listener or 'off'; port 0 picks a free one.")
@click.option("--kafka", metavar="HOST:PORT", help="Kafka listener or 'off'; port 0 picks a free one.")
@click.option("--sqs", metavar="HOST:PORT", help="SQS listener or 'off'; port 0 picks a free one.")
@click.option("--config", type=click.Path(path_type=Path), metavar="FILE", help="Settings file (TOML).")
@click.option("--fsync", metavar="POLICY", help="When messages are safe: always, interval or never.")
@click.option("--shards", metavar="N", help="How many shards the node has; more can be added later, none taken away.")
@click.option("--log-level", metavar="LEVEL", help="debug, info, warning or error.")
def serve(
    data_dir: str | None,
    rest: str | None,
    kafka: str | None,
    sqs: str | None,
    config: Path | None,
    fsync: str | None,
    shards: str | None,
    log_level: str | None,
) -> None:
    """Run a node until SIGTERM or Ctrl-C."""
    flags = {
        "data.dir": data_dir,
        "rest.listen": rest,
        "kafka.listen": kafka,
        "sqs.listen": sqs,
        "log.fsync": fsync,
        "node.shards": shards,
        "logging.level": log_level,
    }
    try:
        settings = load_settings(config, os.environ, {key: text for key, text in flags.items() if text is not None})
        if settings.cluster.store:
            require_cluster_extra()
        set_up_logs(settings.logging)
        sys.setswitchinterval(_SWITCH_S)
        uvloop.run(_serve(settings))
    except (Startup, DiskFull) as error:
        click.echo(f"error: {error.message} ({error.code})", err=True)
        sys.exit(1)


async def _serve(settings: Settings) -> None:
    loop = asyncio.get_running_loop()
    asked_to_stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, asked_to_stop.set)
    node = Node(settings, pages())
    if settings.cluster.store:
        started = await _joined(node, asked_to_stop)
        if started is None:
            click.echo("GoQueue has stopped before it was in its cluster.")
            return
    else:
        started = await node.start()
    # What lives from the start on lives to the end: the collector need not look at it again and again.
    gc.collect()
    gc.freeze()
    click.echo(block(started))
    sys.stdout.flush()
    await asked_to_stop.wait()
    click.echo("GoQueue is stopping.")
    await node.stop()
    click.echo("GoQueue has stopped; everything accepted is safe.")


async def _joined(node: Node, asked_to_stop: asyncio.Event) -> Started | None:
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


def block(started: Started) -> str:
    """What a person wants to know after a start."""
    found = f"{started.topics} topics, {started.partitions} partitions, {started.messages:,} messages"
    checked = "clean" if not started.bytes_checked else f"checked {started.bytes_checked:,} bytes after a crash"
    if started.bytes_cut:
        checked += f", cut {started.bytes_cut:,}"
    if started.bytes_replayed:
        checked += f", took {started.bytes_replayed:,} from the journal"
    if started.damaged_entries:
        checked += f", {started.damaged_entries} damaged entries in the journal"
    if started.damaged_ranges:
        checked += f", {started.damaged_ranges} damaged ranges quarantined"
    lines = [
        f"GoQueue {started.version}",
        f"  data       {started.data_dir} (fsync {started.fsync})",
        f"  recovered  {found} in {started.seconds:.2f} s ({checked})",
    ]
    lines += [f"  {name:<9}  {address}" for name, address in started.addresses.items()]
    if (rest := started.addresses.get("REST", "off")) != "off":
        lines += [f"  console    {rest}/", f"  docs       {rest}/docs"]
    return "\n".join([*lines, "Ready. Stop it with Ctrl-C."])
