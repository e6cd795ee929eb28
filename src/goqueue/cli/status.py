"""`goqueue status`: the broker at a glance, and whether it is well."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from goqueue.cli.connecting import connect
from goqueue.cli.options import view_options
from goqueue.cli.show import print_facts, render, size_text
from goqueue.cli.span_text import age_text
from goqueue.client import Client, ConnectionFailed, GoQueueClientError
from goqueue.client.calls import node_stats
from goqueue.client.cluster import cluster_health

T = TypeVar("T")


@click.command()
@view_options
def status(server: str, output: str) -> None:
    """Show the broker at a glance, and what is wrong with it.

    Exit code 1 if the node does not take work, or something of its cluster cannot be read or written.
    """
    with connect(server) as client:
        told = _ask(client)
    render(output, told, lambda: print_facts(_facts(told)), [told["status"]])
    raise click.exceptions.Exit(0 if told["status"] in ("ok", "degraded") else 1)


def _ask(client: Client) -> dict[str, Any]:
    """What the caller may not see is left out."""
    version, ready = client.version(), client.ready()
    stats = _allowed(client.stats)
    health = _allowed(lambda: client.perform(cluster_health()))
    queues = _allowed(client.queue_stats)
    told: dict[str, Any] = {
        "server": client.url,
        "status": "not ready" if not ready else "ok" if health is None else health.status,
        "version": version.version,
        "doors": _allowed(client.doors),
        "problems": _problems(ready.told) + (health.problems if health else []),
        "node": stats,
        "cluster": health,
        "groups": _count(_allowed(client.groups)),
        "queues": None if queues is None else queues["totals"],
        "delayed": _allowed(client.delay_stats),
        "transactions": _allowed(lambda: client.perform(node_stats("/transactions/stats"))),
    }
    return {name: value for name, value in told.items() if value is not None}


def _allowed(ask: Callable[[], T]) -> T | None:
    try:
        return ask()
    except ConnectionFailed:
        raise
    except GoQueueClientError as error:
        if error.status not in (401, 403):
            raise
        return None


def _count(found: list[Any] | None) -> int | None:
    return None if found is None else len(found)


def _problems(told: dict[str, Any]) -> list[str]:
    checks = told.get("checks") or {}
    return [f"{name}: {one['detail']}" for name, one in checks.items() if not one["ok"]]


def _facts(told: dict[str, Any]) -> list[tuple[str, object]]:
    facts: list[tuple[str, object]] = [("server", told["server"]), ("status", told["status"])]
    facts += [("problem", one) for one in told["problems"]]
    node, cluster = told.get("node"), told.get("cluster")
    running = f", up for {age_text(node['uptime_ms'] / 1000)}" if node else ""
    facts.append(("version", f"{told['version']}{running}"))
    if cluster is not None:
        gone = f", {cluster.nodes_gone} gone" if cluster.nodes_gone else ""
        facts.append(("cluster", f"{cluster.nodes_alive} alive{gone}, {cluster.shards} shards"))
    if node:
        facts.append(("topics", f"{node['topics']:,} with {node['partitions']:,} partitions"))
        facts.append(("messages", f"{node['messages']:,} in {size_text(node['size_bytes'])}"))
        disk = node["disk"]
        facts.append(("disk", f"{disk['used_percent']:.0f} % used, {size_text(disk['free_bytes'])} free"))
    if "groups" in told:
        facts.append(("groups", f"{told['groups']:,}"))
    if totals := told.get("queues"):
        dead = sum(totals["dead_letters"].values())
        now = f"{totals['ready']:,} ready, {totals['in_flight']:,} leased, {totals['waiting']:,} retrying"
        facts.append(("queues", f"{now}, {dead:,} dead"))
    if delayed := told.get("delayed"):
        facts.append(("delayed", f"{delayed['pending']:,} pending"))
    if transactions := told.get("transactions"):
        facts.append(("open transactions", f"{transactions['open']:,}"))
    if doors := told.get("doors"):
        named = {name: getattr(doors, name) for name in doors.__struct_fields__}
        facts.append(("doors", ", ".join(f"{name} {place}" for name, place in named.items() if place)))
    return facts
