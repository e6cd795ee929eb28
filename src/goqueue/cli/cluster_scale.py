"""`goqueue cluster hand-over` and `scale`: what is done before a node is stopped, and before nodes are taken away.

They ask nothing and wait with a deadline, for programs that start and stop nodes: hooks of Kubernetes, scripts.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from goqueue.base.errors import InvalidField
from goqueue.base.times import parse_duration_ms
from goqueue.cli.cluster_moves import cluster_client, follow
from goqueue.cli.failures import Failed
from goqueue.cli.options import of_cluster
from goqueue.cli.show import remark, render

if TYPE_CHECKING:
    from goqueue.api.cluster import ClusterNode
    from goqueue.client import Client

_PAUSE_S: Final = 1.0


def _span(ctx: click.Context, param: click.Parameter, given: str) -> int:
    try:
        return parse_duration_ms(given, param.name or "")
    except InvalidField as error:
        raise click.BadParameter(error.message, ctx, param) from None


@click.command("hand-over")
@click.argument("number", metavar="[NODE]", type=click.IntRange(0), required=False)
@click.option(
    "--within",
    "within_ms",
    default="60s",
    callback=_span,
    show_default=True,
    help="How long to wait for the others: at most 10m.",
)
@click.option("--back", is_flag=True, help="The node may lead again.")
@of_cluster
def hand_over(number: int | None, within_ms: int, back: bool, server: str, output: str, data: Path | None) -> None:
    """Prepare NODE, the one that is asked, for being stopped.

    It waits until the others can do without it, and hands over what it leads. It goes on serving, is not ready
    (/readyz), and leads nothing until it is started again, or --back. Exit code 1 if the others cannot do without it.
    """
    from goqueue.client.cluster import cluster_state, stay_leading
    from goqueue.client.cluster import hand_over as ask

    with cluster_client(server, data) as client:
        node = client.perform(cluster_state()).node if number is None else number
        if back:
            client.perform(stay_leading(node))
            remark(f"Node {node} may lead again.")
            return
        found = client.perform(ask(node, within_ms))
    left = f"It still leads shards {', '.join(map(str, found.leads))}: nobody else can." if found.leads else ""
    lines = [f"Node {node} may go." if found.is_safe else f"Node {node} is missed if it goes:", *found.reasons, left]
    render(output, found, lambda: click.echo("\n".join(filter(None, lines))), ["safe" if found.is_safe else "not-safe"])
    raise click.exceptions.Exit(0 if found.is_safe else 1)


@click.command()
@click.argument("nodes", metavar="NODES", type=click.IntRange(1))
@click.option("--finish", is_flag=True, help="Afterwards: wait until they are gone, and take them out of the cluster.")
@click.option("--within", "within_ms", default="1h", callback=_span, show_default=True, help="How long to wait.")
@of_cluster
def scale(nodes: int, finish: bool, within_ms: int, server: str, output: str, data: Path | None) -> None:
    """Prepare the cluster for having NODES nodes, with the numbers from 0 on.

    Nodes with higher numbers are drained: what they hold moves to the others, and this returns when it has arrived.
    Stop them then, and run it again with --finish. Nodes with lower numbers that hold nothing may hold shards again.
    If the nodes that stay cannot hold everything, nothing is begun.
    """
    ends = time.monotonic() + within_ms / 1000
    with cluster_client(server, data) as client:
        _finish(client, nodes, ends) if finish else _prepare(client, nodes, ends)


def _prepare(client: Client, nodes: int, ends: float) -> None:
    from goqueue.client.cluster import fill_node, move_shards, to_drain

    members = _members(client)
    leaving = [one.id for one in members if one.id >= nodes]
    empty = [one.id for one in members if one.id < nodes and not one.leads + one.follows]
    if leaving:
        client.perform(move_shards(to_drain(leaving, empty)))
        remark(f"Draining node{'s' * (len(leaving) > 1)} {', '.join(map(str, leaving))}.")
    for number in [] if leaving else empty:
        client.perform(fill_node(number))
    follow(client, ends)
    if held := [one.id for one in _beyond(client, nodes) if one.leads + one.follows]:
        raise Failed(f"Still holding shards: nodes {', '.join(map(str, held))}. Run it again.")


def _finish(client: Client, nodes: int, ends: float) -> None:
    from goqueue.client.cluster import remove_node

    _wait(lambda: all(one.state == "gone" for one in _beyond(client, nodes)), ends, "Nodes that are to go still run.")
    for one in _beyond(client, nodes):
        client.perform(remove_node(one.id))
        remark(f"Node {one.id} does not belong to the cluster any more.")


def _beyond(client: Client, nodes: int) -> list[ClusterNode]:
    return [one for one in _members(client) if one.id >= nodes]


def _members(client: Client) -> list[ClusterNode]:
    from goqueue.client.cluster import cluster_state

    return client.perform(cluster_state()).nodes


def _wait(holds: Callable[[], bool], ends: float, what: str) -> None:
    while not holds():
        if time.monotonic() > ends:
            raise Failed(f"The time is over. {what}")
        time.sleep(_PAUSE_S)


SCALING: Final = (hand_over, scale)
