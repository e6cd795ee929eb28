"""A real cluster: nodes and members of etcd, each in a process of its own, for benchmarks and for tests."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import httpx

from bench.etcd_process import EtcdMember, Host, etcd_members
from bench.node_process import NodeProcess, has_grpc
from goqueue.cli.cluster_dir import free_ports

_DOORS: Final = ("rest", "kafka", "sqs", "grpc")
_PORTS: Final = 5  # of a node
_WAIT_S: Final = 120.0  # a busy machine is slow, and not wrong


class ClusterProcess:
    """`with ClusterProcess(root) as cluster:` has its nodes joined and every shard whole until the block is left.

    Nodes keep their ports when they are started again. `EtcdMissing` where no etcd can be had.
    """

    def __init__(
        self,
        root: Path,
        nodes: int = 3,
        etcd: int = 1,
        settings: Mapping[str, str] | None = None,
        tree: Path | None = None,
        hosts: tuple[Sequence[Host], Sequence[Host]] = ((), ()),
        programs: Sequence[str] = (),
    ) -> None:
        """`settings` are those of all nodes; `tree` is a checkout whose code they run; `hosts` are where nodes and
        members of etcd run, if that is not here; `programs` what nodes run, if that is not the command line."""
        self._root = root
        self._etcd_count = etcd
        self._settings = {
            "GOQUEUE_CLUSTER_NODES": str(nodes),
            "GOQUEUE_CLUSTER_REPLICATION_FACTOR": str(min(3, nodes)),
            **(settings or {}),
        }
        self._tree = tree
        self._hosts, self._etcd_hosts = hosts[0] or [Host()] * nodes, hosts[1]
        self._programs = programs
        self._count = nodes
        self._stack = ExitStack()
        self.etcd: list[EtcdMember] = []
        self.nodes: list[NodeProcess] = []
        self._running: set[int] = set()

    @property
    def store(self) -> str:
        return "etcd://" + ",".join(member.client for member in self.etcd)

    def __enter__(self) -> Self:
        self._root.mkdir(parents=True, exist_ok=True)
        self.etcd = self._stack.enter_context(etcd_members(self._root, self._etcd_count, hosts=self._etcd_hosts))
        try:
            first = free_ports(_PORTS * self._count)
            self.nodes = [self.new_node(number, first + _PORTS * number) for number in range(self._count)]
            self.start(*range(self._count))
            self.wait_whole()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def _end(self) -> None:
        for number in list(self._running):
            self.nodes[number].send_signal(signal.SIGCONT)
            self.kill(number)
        self._stack.close()

    def new_node(self, number: int, port: int, **settings: str) -> NodeProcess:
        """One that is not started; `settings` go over those of all."""
        host = self._hosts[number] if number < len(self._hosts) else Host()
        doors = _DOORS if has_grpc(self._tree) else _DOORS[:-1]
        flags = [word for step, door in enumerate(doors) for word in (f"--{door}", f"{host.address}:{port + step}")]
        if host != Host():
            flags.append("--insecure")  # nobody but the test reaches such a host
        chosen = {
            **self._settings,
            "GOQUEUE_CLUSTER_STORE": self.store,
            "GOQUEUE_CLUSTER_LISTEN": f"{host.address}:{port + len(_DOORS)}",
            "GOQUEUE_NODE_ID": str(number),
            **settings,
        }
        directory = self._root / f"node-{number}"
        program = self._programs[number] if number < len(self._programs) else ""
        return NodeProcess(directory, *flags, settings=chosen, tree=self._tree, under=host.under, program=program)

    def add(self, **settings: str) -> int:
        """One more node, which serves when this returns; its number."""
        number = len(self.nodes)
        self.nodes.append(self.new_node(number, free_ports(_PORTS), **settings))
        self.start(number)
        return number

    # --- what is done to it --------------------------------------------------------------------------------------

    def start(self, *numbers: int) -> None:
        """Side by side: those of a new cluster wait for each other. Returns when they serve."""
        self._running |= set(numbers)
        with ThreadPoolExecutor(len(numbers)) as pool:
            starts = {pool.submit(self.nodes[number].start): number for number in numbers}
            ended = wait(starts, return_when=FIRST_EXCEPTION)
            for start in ended.not_done:  # one has failed: the others would wait for it
                self.nodes[starts[start]].send_signal(signal.SIGKILL)
        for start in ended.done:
            start.result()

    def kill(self, number: int) -> None:
        """`kill -9`."""
        self._running.discard(number)
        self.nodes[number].kill()

    def stop(self, number: int) -> int:
        """Gracefully; the exit code."""
        self._running.discard(number)
        return self.nodes[number].stop()

    def pause(self, number: int) -> None:
        """SIGSTOP: the node stands still, its connections stay."""
        self.nodes[number].send_signal(signal.SIGSTOP)

    def resume(self, number: int) -> None:
        self.nodes[number].send_signal(signal.SIGCONT)

    def heal(self) -> None:
        """Everything runs again, and every shard is whole."""
        for member in self.etcd:
            if not member.is_running:
                member.start()
            member.signal(signal.SIGCONT)
        for number in self._running:
            self.resume(number)
        if missing := [number for number in range(self._count) if number not in self._running]:
            self.start(*missing)
        self.wait_whole()

    # --- what it says --------------------------------------------------------------------------------------------

    @property
    def running(self) -> list[int]:
        return sorted(self._running)

    @property
    def bootstrap(self) -> str:
        return ",".join(node.kafka for node in self.nodes)

    def state(self, number: int | None = None) -> dict[str, Any]:
        """As one node sees it, or the first that runs."""
        asked = self.nodes[self.running[0] if number is None else number]
        found: dict[str, Any] = httpx.get(f"{asked.url}/cluster/state", timeout=10).raise_for_status().json()
        return found

    def leader_of(self, topic: str, partition: int = 0) -> int | None:
        """None while nobody leads."""
        asked = self.nodes[self.running[0]]
        answer = httpx.get(f"{asked.url}/cluster/metadata", params={"topic": topic}, timeout=10).raise_for_status()
        leader: int | None = answer.json()["topics"][0]["partitions"][partition]["leader"]
        return leader

    def wait_whole(self) -> None:
        """Every running node sees all nodes, and every shard led with all replicas in sync."""
        self.wait(self._is_whole, "the cluster is not whole")

    def _is_whole(self) -> bool:
        return all(self._says_whole(number) for number in self.running)

    def _says_whole(self, number: int) -> bool:
        try:
            state = self.state(number)
        except httpx.HTTPError:
            return False
        return bool(state["shards"]) and state["status"] == "ok" and len(state["nodes"]) >= len(self._running)

    def wait(self, holds: Callable[[], object], what: str) -> None:
        deadline = time.monotonic() + _WAIT_S
        while not holds():
            gone = [number for number in self.running if not self.nodes[number].is_alive]
            if gone or time.monotonic() > deadline:
                raise AssertionError(f"{what}; nodes that ended by themselves: {gone}\n{self.logs()}")
            time.sleep(0.05)

    def logs(self, lines: int = 30) -> str:
        return "\n".join(_tail(node, lines) for node in self.nodes)


def _tail(node: NodeProcess, lines: int) -> str:
    told: Iterable[str] = node.stderr.splitlines()[-lines:]
    return f"--- {node.data_dir.name}\n" + "\n".join(told)
