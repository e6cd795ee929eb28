"""`goqueue cluster up`: an etcd and several nodes on one machine, started, looked after and stopped together."""

from __future__ import annotations

import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import httpx
import msgspec

from goqueue.cli.cluster_dir import ClusterDir, ClusterFile, LocalProcess, end, is_free
from goqueue.cli.cluster_plan import ETCD, LaunchPlan, etcd_plan, node_plan
from goqueue.cli.failures import Failed

Say = Callable[[str], None]

_LOOK_S: Final = 0.1
_ETCD_S_MAX: Final = 60.0
_STOP_S_MAX: Final = 60.0
_RESTART_S: Final = 1.0  # between a death and the next start
_PATIENCE_S: Final = 30.0  # then somebody is told that a node is not ready yet
_LOG_LINES: Final = 15


class LaunchedProcess:
    """Started again and again from one plan, in a session of its own: Ctrl-C reaches only who started it."""

    def __init__(self, plan: LaunchPlan) -> None:
        self.plan = plan
        self.is_ready = False
        self.ended_at = 0.0
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    def start(self) -> None:
        self.is_ready = False
        with self.plan.log.open("ab") as log:
            self._process = subprocess.Popen(
                self.plan.command,
                env=dict(self.plan.environ),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def ended(self) -> int | None:
        """The exit code, once, of a process that is no more."""
        if self._process is None or (code := self._process.poll()) is None:
            return None
        self._process, self.is_ready, self.ended_at = None, False, time.monotonic()
        return code

    def signal(self, number: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(number)

    def wait(self, deadline: float) -> bool:
        """Whether it is gone."""
        if self._process is None:
            return True
        try:
            self._process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            return False
        self._process = None
        return True

    def last_lines(self) -> str:
        try:
            return "\n".join(self.plan.log.read_text(errors="replace").splitlines()[-_LOG_LINES:])
        except OSError:
            return ""


class LocalCluster:
    """`run` returns when everything has stopped."""

    def __init__(self, directory: ClusterDir, known: ClusterFile, etcd: Path, restarts: bool, say: Say) -> None:
        """`known` are the addresses; `etcd` the program."""
        self._directory = directory
        self._known = known
        self._restarts = restarts
        self._say = say
        self._program = etcd
        self._etcd: LaunchedProcess | None = None
        self._nodes: dict[int, LaunchedProcess] = {}
        self._signals = 0  # that came; the first asks to stop, the second not to wait
        self._told_ready = False

    def run(self, environ: Mapping[str, str]) -> int:
        """The exit code: 0 after it was asked to stop, 1 if nothing runs any more."""
        member = self._known.etcd[0]
        self._etcd = LaunchedProcess(etcd_plan(self._directory, self._program, member, environ))
        self._nodes = {
            one.id: LaunchedProcess(node_plan(self._directory, one, self._known, environ)) for one in self._known.nodes
        }
        with _signals(self._signalled):
            self._end_left_over()
            try:
                self._start_all(member)
                return self._look_after()
            finally:
                self._stop_all()

    def _signalled(self) -> None:
        self._signals += 1

    def _pause(self) -> bool:
        """False if it is time to stop."""
        time.sleep(_LOOK_S)
        return not self._signals

    # --- start -------------------------------------------------------------------------------------------------

    def _end_left_over(self) -> None:
        """What an earlier `up` left running because it was killed."""
        before = self._directory.read()
        for one, name in [*((one, f"node-{one.id}") for one in before.nodes), *((one, ETCD) for one in before.etcd)]:
            data = self._directory.data_of(name)
            if not end(one.pid, data, signal.SIGTERM, _STOP_S_MAX) and not end(one.pid, data, signal.SIGKILL, 10.0):
                raise Failed(f"{name} of an earlier start (process {one.pid}) does not end; stop it first.")

    def _start_all(self, member: LocalProcess) -> None:
        assert self._etcd is not None
        _check_free(member)
        self._etcd.start()
        self._write()
        self._wait_for_etcd(self._etcd, member.addresses["client"])
        self._say(f"etcd    {member.addresses['client']}")
        for node in self._nodes.values():
            node.start()
        self._write()

    def _wait_for_etcd(self, etcd: LaunchedProcess, url: str) -> None:
        deadline = time.monotonic() + _ETCD_S_MAX
        host, _, port = url.removeprefix("http://").rpartition(":")
        while not _listens(host, int(port)):
            if etcd.ended() is not None or time.monotonic() > deadline:
                raise Failed(f"etcd did not start; its log is {etcd.plan.log}:\n{etcd.last_lines()}")
            if not self._pause():
                return
        etcd.is_ready = True

    # --- while it runs -------------------------------------------------------------------------------------------

    def _look_after(self) -> int:
        patience = time.monotonic() + _PATIENCE_S
        while self._pause():
            self._note_deaths()
            self._start_asked_for()
            self._note_ready()
            if time.monotonic() > patience and not self._told_ready:
                patience = float("inf")
                self._tell_waiting()
            if not self._restarts and all(one.pid is None for one in self._nodes.values()) and not self._told_ready:
                self._say("no node started; stopping")
                return 1
        self._say("stopping")
        return 0

    def _all(self) -> list[LaunchedProcess]:
        assert self._etcd is not None
        return [*self._nodes.values(), self._etcd]

    def _note_deaths(self) -> None:
        for one in self._all():
            if (code := one.ended()) is not None:
                self._write()
                self._say(self._death(one, code))
            elif self._restarts and one.ended_at and one.pid is None and self._is_due(one):
                one.start()
                self._write()
                self._say(f"{_shown(one)}  started again (process {one.pid})")

    def _is_due(self, one: LaunchedProcess) -> bool:
        return time.monotonic() - one.ended_at > _RESTART_S

    def _death(self, one: LaunchedProcess, code: int) -> str:
        text = f"{_shown(one)}  {_how(code)}; its log is {one.plan.log}"
        if code == 0:
            one.ended_at = 0.0  # somebody stopped it: it is not started again by itself
        elif code > 0:
            text += f":\n{one.last_lines()}"
        return text

    def _start_asked_for(self) -> None:
        for number in self._directory.asked_for():
            node = self._nodes.get(number)
            if node is not None and node.pid is None:
                node.start()
                self._write()
                self._say(f"{_shown(node)}  started (process {node.pid})")

    def _note_ready(self) -> None:
        for known in self._known.nodes:
            node = self._nodes[known.id]
            if node.pid is not None and not node.is_ready and is_ready(known.addresses["rest"]):
                node.is_ready = True
                shown = "  ".join(f"{title} {known.addresses[key]}" for title, key in _SHOWN)
                self._say(f"{_shown(node)}  {shown}")
        if not self._told_ready and all(node.is_ready for node in self._nodes.values()):
            self._told_ready = True
            self._say(f"Ready. {self._directory.file} says where everything is. Stop it with Ctrl-C.")

    def _tell_waiting(self) -> None:
        for node in self._nodes.values():
            if not node.is_ready:
                self._say(f"{_shown(node)}  is not ready yet; its log is {node.plan.log}")

    # --- stop --------------------------------------------------------------------------------------------------

    def _stop_all(self) -> None:
        """Nodes first: they hand over and say goodbye to the store. A second Ctrl-C kills."""
        self._end(list(self._nodes.values()))
        if self._etcd is not None:
            self._end([self._etcd])
        self._write()
        self._say("stopped")

    def _end(self, members: list[LaunchedProcess]) -> None:
        deadline = time.monotonic() + _STOP_S_MAX
        for one in members:
            one.signal(signal.SIGTERM)
        for one in members:
            while not one.wait(time.monotonic() + _LOOK_S):
                if time.monotonic() > deadline or self._signals > 1:
                    self._say(f"{_shown(one)}  did not stop in time and is killed")
                    one.signal(signal.SIGKILL)
                    one.wait(time.monotonic() + 10.0)

    def _write(self) -> None:
        nodes = [msgspec.structs.replace(one, pid=self._nodes[one.id].pid) for one in self._known.nodes]
        pid = None if self._etcd is None else self._etcd.pid
        self._directory.write(ClusterFile(nodes, [msgspec.structs.replace(one, pid=pid) for one in self._known.etcd]))


_SHOWN: Final = (("REST", "rest"), ("Kafka", "kafka"), ("SQS", "sqs"))


def _shown(one: LaunchedProcess) -> str:
    return f"{one.plan.name.replace('-', ' '):<6}"


def _how(code: int) -> str:
    if code == 0:
        return "stopped"
    return f"died (exit code {code})" if code > 0 else f"was killed ({signal.Signals(-code).name})"


def _check_free(etcd: LocalProcess) -> None:
    """Nodes are not to use the etcd of somebody else that is there."""
    for url in etcd.addresses.values():
        port = int(url.rpartition(":")[2])
        if not is_free(port):
            raise Failed(f"Port {port}, for etcd, is in use; stop what uses it, or name other ports with --base-port.")


def _listens(host: str, port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((host, port)) == 0


def is_ready(rest: str) -> bool:
    try:
        return httpx.get(f"{rest}/readyz", timeout=1.0, trust_env=False).status_code == 200
    except httpx.HTTPError:
        return False


@contextmanager
def _signals(stop: Callable[[], None]) -> Iterator[None]:
    before = {number: signal.signal(number, lambda *_: stop()) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
