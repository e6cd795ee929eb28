"""`goqueue cluster`: a cluster on this machine for trying and for drills, and how a cluster is."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Final

import click

from goqueue.cli.cluster_dir import ClusterDir, LocalProcess, end, free_ports, runs
from goqueue.cli.cluster_extra import require_cluster_extra
from goqueue.cli.cluster_moves import MOVES
from goqueue.cli.cluster_scale import SCALING
from goqueue.cli.failures import Failed
from goqueue.cli.options import CommandGroup, view_of_cluster
from goqueue.cli.show import remark, render

_START_S_MAX: Final = 120.0
_STOP_S_MAX: Final = 60.0
_PAUSE_S: Final = 0.1

_data = click.option(
    "--data", type=click.Path(path_type=Path), required=True, metavar="DIR", help="The cluster's directory."
)


@click.group(cls=CommandGroup)
def cluster() -> None:
    """Run a cluster on this machine, and show how a cluster is."""


@cluster.command()
@click.option("--nodes", type=click.IntRange(1, 100), default=3, show_default=True, help="How many nodes.")
@_data
@click.option("--base-port", type=click.IntRange(1, 65_000), metavar="P", help="First port; default: free ones.")
@click.option("--restart", is_flag=True, help="Start what died again.")
def up(nodes: int, data: Path, base_port: int | None, restart: bool) -> None:
    """Run an etcd and several nodes on this machine until SIGTERM or Ctrl-C.

    What DIR holds from an earlier time goes on. DIR/cluster.json tells processes and addresses. Settings of nodes are
    taken from GOQUEUE_* variables.
    """
    from goqueue.cli.cluster_plan import base_port_of, planned
    from goqueue.cli.cluster_up import LocalCluster
    from goqueue.cli.etcd_program import find_etcd

    require_cluster_extra()
    directory = ClusterDir(data)
    program = find_etcd(say=click.echo)
    with directory.held():
        directory.make_secret()
        known = directory.read()
        port = base_port or base_port_of(known) or free_ports((nodes + 1) * 10)
        running = LocalCluster(directory, planned(known, nodes, port), program, restart, click.echo)
        raise click.exceptions.Exit(running.run(os.environ))


@cluster.command()
@view_of_cluster
def status(server: str, output: str, data: Path | None) -> None:
    """Show how the cluster is: nodes, controller, what is wrong.

    Exit code 1 if something cannot be read or written.
    """
    from goqueue.cli.cluster_show import ask, server_in, show_status

    state, health = ask(server_in(data) if data else server)
    render(output, {"health": health, "state": state}, lambda: show_status(state, health), [state.cluster_id])
    raise click.exceptions.Exit(1 if health.status == "unavailable" else 0)


@cluster.command()
@view_of_cluster
def nodes(server: str, output: str, data: Path | None) -> None:
    """List nodes: who lives, who leads how many shards."""
    from goqueue.cli.cluster_show import ask, server_in, show_nodes

    state, _ = ask(server_in(data) if data else server)
    render(output, state.nodes, lambda: show_nodes(state.nodes), [str(one.id) for one in state.nodes])


@cluster.command()
@view_of_cluster
def shards(server: str, output: str, data: Path | None) -> None:
    """List shards: leader, epoch, replicas, who is in sync, who is behind."""
    from goqueue.cli.cluster_show import ask, server_in, show_shards

    state, _ = ask(server_in(data) if data else server)
    render(output, state.shards, lambda: show_shards(state.shards), [str(one.shard) for one in state.shards])


for command in (*MOVES, *SCALING):
    cluster.add_command(command)


@cluster.group(cls=CommandGroup)
def node() -> None:
    """Start, stop and kill single nodes of `goqueue cluster up`, for drills."""


@node.command()
@click.argument("number", metavar="ID", type=click.IntRange(0))
@_data
def start(number: int, data: Path) -> None:
    """Start a node that was stopped or died."""
    from goqueue.cli.cluster_up import is_ready

    directory, found = _node(data, number)
    if not directory.is_held():
        raise Failed(f"No `goqueue cluster up` runs for {data}; it starts all nodes.")
    if _runs(directory, found):
        raise Failed(f"Node {number} runs already (process {found.pid}).")
    directory.ask_for(number)
    deadline = time.monotonic() + _START_S_MAX
    while not (_runs(directory, directory.read().node(number)) and is_ready(found.addresses["rest"])):
        if time.monotonic() > deadline:
            raise Failed(
                f"Node {number} is not ready after {_START_S_MAX:.0f} s; its log is {_log(directory, number)}."
            )
        time.sleep(_PAUSE_S)
    remark(f"Node {number} is ready at {found.addresses['rest']}.")


@node.command()
@click.argument("number", metavar="ID", type=click.IntRange(0))
@_data
def stop(number: int, data: Path) -> None:
    """Stop a node gracefully: it hands over what it leads first."""
    _end(data, number, signal.SIGTERM)
    remark(f"Node {number} has stopped.")


@node.command()
@click.argument("number", metavar="ID", type=click.IntRange(0))
@_data
def kill(number: int, data: Path) -> None:
    """Kill a node (`kill -9`): nothing is handed over."""
    _end(data, number, signal.SIGKILL)
    remark(f"Node {number} was killed.")


def _node(data: Path, number: int) -> tuple[ClusterDir, LocalProcess]:
    directory = ClusterDir(data)
    known = directory.read()
    if not known.nodes:
        raise Failed(f"{directory.file} is not there: no cluster was started in {data}.")
    return directory, known.node(number)


def _runs(directory: ClusterDir, found: LocalProcess) -> bool:
    return runs(found.pid, directory.data_of(f"node-{found.id}"))


def _log(directory: ClusterDir, number: int) -> Path:
    return directory.log_of(f"node-{number}")


def _end(data: Path, number: int, how: signal.Signals) -> None:
    directory, found = _node(data, number)
    if not _runs(directory, found):
        raise Failed(f"Node {number} does not run.")
    if not end(found.pid, directory.data_of(f"node-{number}"), how, _STOP_S_MAX):
        raise Failed(f"Node {number} (process {found.pid}) does not end; its log is {_log(directory, number)}.")
