"""What the supervisor tells each of its processes, and what they tell it: one line of JSON each way."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from goqueue.base.limits import SHARDS_DEFAULT
from goqueue.base.settings import Settings, parse_address
from goqueue.base.started import Started

ORDERS_BYTES_MAX: Final = 1 << 20
HOST: Final = "127.0.0.1"  # processes of one machine meet there


class ProcessOrders(msgspec.Struct, frozen=True):
    """The settings that hold for one process, and whether its data directory is held for it."""

    number: int
    settings: Settings
    holds_data_dir: bool


class ProcessNews(msgspec.Struct, frozen=True, omit_defaults=True):
    """Said once: it serves, or it could not."""

    started: Started | None = None
    failure: str = ""


def data_dir_of(root: Path, number: int) -> Path:
    """The first process has what a node that is alone has; the others have directories below it."""
    return root / f"process-{number}" if number else root


def settings_of(settings: Settings, number: int, store: str, secret: str) -> Settings:
    """Of one process: a node of a cluster whose store the supervisor keeps."""
    replace = msgspec.structs.replace
    cluster = replace(
        settings.cluster,
        store=store,
        secret=secret,
        secret_file="",
        listen=f"{HOST}:0",
        advertised="",
        rack=settings.cluster.rack or socket.gethostname(),
        nodes=settings.node.processes,
        replication_factor=1,
        min_insync_replicas=1,
    )
    return replace(
        settings,
        cluster=cluster,
        node=replace(settings.node, id=settings.node.id + number, shards=shards_of(settings)),
        data=replace(settings.data, dir=str(data_dir_of(Path(settings.data.dir), number))),
        kafka=replace(settings.kafka, advertised=_next_port(settings.kafka.advertised, number)),
    )


def shards_of(settings: Settings) -> int:
    """Of a new data directory: as many for each process."""
    count = settings.node.processes
    return settings.node.shards or -(-SHARDS_DEFAULT // count) * count


def _next_port(address: str, number: int) -> str:
    if not address or (parsed := parse_address(address)) is None:
        return address
    host, port = parsed
    return f"[{host}]:{port + number}" if ":" in host else f"{host}:{port + number}"


def memory_bytes(pid: int) -> int:
    """What a process takes for itself, with its share of what several use; 0 where that cannot be told."""
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except OSError:
        return 0
    found: Mapping[str, int] = {
        name: int(rest.split()[0]) * 1024
        for name, _, rest in (line.partition(":") for line in text.splitlines()[1:])
        if rest
    }
    return found.get("Pss", 0)
