"""Who listens where in a cluster on one machine, and how each of its processes is started."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from goqueue.cli.cluster_dir import HOST, PORT_MAX, PORTS_PER_MEMBER, ClusterDir, ClusterFile, LocalProcess
from goqueue.cli.etcd_program import etcd_command
from goqueue.cli.failures import Failed, Misused

ETCD: Final = "etcd"
_FACTOR_MAX: Final = 3
_SECRET: Final = "GOQUEUE_CLUSTER_SECRET"


class LaunchPlan(msgspec.Struct, frozen=True):
    """How one process is started."""

    name: str
    command: Sequence[str]
    environ: Mapping[str, str]
    data: Path
    log: Path


def planned(known: ClusterFile, nodes: int, base_port: int) -> ClusterFile:
    """Addresses of all. Those that are known stay, unless `base_port` is another one."""
    if len(known.nodes) > nodes:
        raise Failed(f"There are {len(known.nodes)} nodes here already; start as many or more, not {nodes}.")
    if (last := base_port + PORTS_PER_MEMBER * (nodes + 1) - 1) > PORT_MAX:
        raise Misused(f"{nodes} nodes need the ports {base_port} to {last}; name a lower --base-port.")
    wanted = [LocalProcess(number, None, node_addresses(base_port, number)) for number in range(nodes)]
    etcd = LocalProcess(0, None, {"client": f"http://{HOST}:{base_port}", "peer": f"http://{HOST}:{base_port + 1}"})
    return ClusterFile(wanted, [etcd])


def base_port_of(known: ClusterFile) -> int | None:
    """Where what was started here before had its ports."""
    return int(known.etcd[0].addresses["client"].rpartition(":")[2]) if known.etcd else None


def node_addresses(base_port: int, number: int) -> dict[str, str]:
    first = base_port + PORTS_PER_MEMBER * (number + 1)
    return {
        "rest": f"http://{HOST}:{first}",
        "kafka": f"{HOST}:{first + 1}",
        "sqs": f"http://{HOST}:{first + 2}",
        "node": f"{HOST}:{first + 3}",
        "grpc": f"{HOST}:{first + 4}",
    }


def etcd_plan(directory: ClusterDir, program: Path, member: LocalProcess, environ: Mapping[str, str]) -> LaunchPlan:
    peers = {ETCD: member.addresses["peer"]}
    data = directory.data_of(ETCD)
    command = etcd_command(program, data, member.addresses["client"], peers, ETCD)
    return LaunchPlan(ETCD, command, environ, data, directory.log_of(ETCD))


def node_plan(directory: ClusterDir, node: LocalProcess, known: ClusterFile, environ: Mapping[str, str]) -> LaunchPlan:
    """What the environment says of other settings holds for all nodes."""
    name = f"node-{node.id}"
    data, count = directory.data_of(name), len(known.nodes)
    store = ",".join(one.addresses["client"].removeprefix("http://") for one in known.etcd)
    command = [
        *(sys.executable, "-c", "from goqueue.cli import main; main()", "serve", "--data", str(data)),
        *("--rest", node.addresses["rest"].removeprefix("http://")),
        *("--kafka", node.addresses["kafka"]),
        *("--sqs", node.addresses["sqs"].removeprefix("http://")),
        *("--grpc", node.addresses["grpc"]),
    ]
    secret = {} if _SECRET in environ else {f"{_SECRET}_FILE": str(directory.secret)}
    settings = {
        "GOQUEUE_CLUSTER_REPLICATION_FACTOR": str(min(_FACTOR_MAX, count)),
        **secret,
        **environ,
        "GOQUEUE_NODE_ID": str(node.id),
        "GOQUEUE_CLUSTER_STORE": f"etcd://{store}",
        "GOQUEUE_CLUSTER_LISTEN": node.addresses["node"],
        "GOQUEUE_CLUSTER_NODES": str(count),
    }
    return LaunchPlan(name, command, settings, data, directory.log_of(name))
