"""How a cluster is, on a terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

import click
import msgspec

from goqueue.api.cluster import ClusterFeature, ClusterHealth, ClusterNode, ClusterShard, ClusterState, ReplicationLag
from goqueue.cli.cluster_dir import ClusterDir
from goqueue.cli.cluster_up import is_ready
from goqueue.cli.connecting import connect
from goqueue.cli.failures import Failed
from goqueue.cli.show import counted, print_facts, print_table
from goqueue.client import GoQueueClientError
from goqueue.client.cluster import cluster_health, cluster_state

_ASK_S = 3.0


def server_in(data: Path) -> str:
    """A node of `goqueue cluster up` that answers."""
    directory = ClusterDir(data)
    running = [one.addresses["rest"] for one in directory.read().nodes if one.pid is not None]
    for rest in running:
        if is_ready(rest):
            return rest
    if not running:
        raise Failed(f"{directory.file} names no node that runs.")
    return running[0]


def ask(server: str) -> tuple[ClusterState, ClusterHealth]:
    """One node's word, with the lags that the others know."""
    with connect(server) as client:
        state, health = client.perform(cluster_state()), client.perform(cluster_health())
    others = [one for one in state.nodes if one.id != state.node and one.state == "alive" and one.leads]
    lags = {one.shard: one.lag for one in state.shards if one.lag}
    for node in others:
        lags |= _lags_at(node)
    shards = [msgspec.structs.replace(one, lag=lags.get(one.shard, {})) for one in state.shards]
    return msgspec.structs.replace(state, shards=shards), health


def _lags_at(node: ClusterNode) -> dict[int, dict[int, ReplicationLag]]:
    """Nothing if the node cannot be reached from here."""
    rest = node.addresses.get("rest", "")
    if not rest.startswith("http"):
        return {}
    try:
        with connect(rest, _ASK_S, same_cluster=True) as client:
            return {one.shard: one.lag for one in client.perform(cluster_state()).shards if one.lag}
    except GoQueueClientError:
        return {}


def show_status(state: ClusterState, health: ClusterHealth) -> None:
    conditions = Counter(one.condition for one in state.shards)
    gone = f", {health.nodes_gone} gone" if health.nodes_gone else ""
    facts = [
        ("cluster", state.cluster_id),
        ("status", health.status),
        ("controller", "nobody" if state.controller is None else f"node {state.controller}"),
        ("nodes", f"{health.nodes_alive} alive{gone}"),
        ("shards", ", ".join(f"{number} {name}" for name, number in conditions.most_common()) or "none yet"),
        ("features", "; ".join(_feature(one) for one in state.features) or "none"),
        ("asked", f"node {state.node}, revision {state.revision:,}"),
    ]
    print_facts(facts)
    for problem in health.problems:
        click.echo(f"{'problem':<12}{problem}")
    click.echo()
    show_nodes(state.nodes)


def _feature(one: ClusterFeature) -> str:
    words, count = f"{one.name} {one.level or 'off'}", len(one.waits_for)
    return f"{words}, waits for node{'s' * (count > 1)} {_numbers(one.waits_for)}" if count else words


def show_nodes(nodes: Sequence[ClusterNode]) -> None:
    columns = ("NODE", "STATE", "CONTROLLER", "LEADS", "FOLLOWS", "IN SYNC", "VERSION", "RACK", "REST", "KAFKA")
    print_table(columns, [_node(one) for one in nodes])


def _node(one: ClusterNode) -> tuple[object, ...]:
    held = f"{one.in_sync} of {one.leads + one.follows}"
    doors = (one.addresses.get(name, "-") for name in ("rest", "kafka"))
    controller = "yes" if one.is_controller else "-"
    state = f"{one.state}, drained" if one.is_drained else one.state
    return one.id, state, controller, one.leads, one.follows, held, one.version or "-", one.rack or "-", *doors


def show_shards(shards: Sequence[ClusterShard]) -> None:
    columns = ("SHARD", "CONDITION", "LEADER", "EPOCH", "REPLICAS", "IN SYNC", "MINIMUM", "PARTITIONS", "LAG")
    print_table(columns, [_shard(one) for one in shards])


def _shard(one: ClusterShard) -> tuple[object, ...]:
    leader = "-" if one.leader is None else str(one.leader)
    held = (_numbers(one.replicas), _numbers(one.in_sync))
    return one.shard, one.condition, leader, one.epoch, *held, one.min_in_sync, one.partitions, _lag(one)


def _numbers(nodes: Iterable[int]) -> str:
    return ",".join(map(str, nodes)) or "-"


def _lag(shard: ClusterShard) -> str:
    """Of each follower that is behind; `-` if none is known to be."""
    behind = {node: lag for node, lag in sorted(shard.lag.items()) if lag.messages}
    told = [f"node {node}: {counted(lag.messages, 'message')}, {lag.ms:,} ms" for node, lag in behind.items()]
    return "; ".join(told) or "-"
