"""Apache Kafka's brokers on loopback, in KRaft mode, each of them a controller too."""

from __future__ import annotations

import subprocess
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from tests.door.kafka.apache import START_S, run_tool
from tests.door.kafka.raw import Line, free_port
from tests.waiting import wait_until

_CLUSTER_ID: Final = "MkU3OEVBNTcwNTJENDM2Qk"
_PROPERTIES: Final = """process.roles=broker,controller
node.id={number}
controller.quorum.voters={voters}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT
log.dirs={data}
default.replication.factor={factor}
min.insync.replicas={in_sync}
offsets.topic.replication.factor={factor}
offsets.topic.num.partitions=3
transaction.state.log.replication.factor={factor}
transaction.state.log.min.isr={in_sync}
transaction.state.log.num.partitions=3
share.coordinator.state.topic.replication.factor={factor}
share.coordinator.state.topic.min.isr={in_sync}
share.coordinator.state.topic.num.partitions=3
group.share.partition.max.record.locks=10000
group.initial.rebalance.delay.ms=0
"""


class ApacheBrokers:
    """`with ApacheBrokers(jars, scratch) as kafka:` serves at `kafka.bootstrap`; brokers can be killed and started."""

    def __init__(self, jars: Path, scratch: Path, count: int = 3) -> None:
        self._jars = jars
        self._scratch = scratch
        self._ports = [free_port() for _ in range(count)]
        controllers = [free_port() for _ in range(count)]
        voters = ",".join(f"{number}@127.0.0.1:{port}" for number, port in enumerate(controllers))
        for number, controller in enumerate(controllers):
            text = _PROPERTIES.format(
                number=number,
                voters=voters,
                port=self._ports[number],
                controller=controller,
                factor=min(3, count),
                in_sync=min(2, count),
                data=scratch / f"data-{number}",
            )
            self._settings(number).write_text(text)
        self._processes: dict[int, subprocess.Popen[bytes]] = {}

    @property
    def addresses(self) -> list[str]:
        return [f"127.0.0.1:{port}" for port in self._ports]

    @property
    def bootstrap(self) -> str:
        return ",".join(self.addresses)

    def _settings(self, number: int) -> Path:
        return self._scratch / f"server-{number}.properties"

    def start(self, number: int) -> None:
        """Returns at once."""
        command = ["java", "-Xmx512m", "-XX:+UseSerialGC", "-cp", f"{self._jars}/*", "kafka.Kafka"]
        with (self._scratch / f"kafka-{number}.out").open("ab") as log:
            self._processes[number] = subprocess.Popen([*command, str(self._settings(number))], stdout=log, stderr=log)

    def runs(self, number: int) -> bool:
        return number in self._processes

    def kill(self, number: int) -> None:
        """`kill -9`."""
        process = self._processes.pop(number)
        process.kill()
        process.wait(30)

    def heal(self) -> None:
        """Starts those that do not run."""
        for number in range(len(self._ports)):
            if not self.runs(number):
                self.start(number)
        self.wait()

    def pids(self) -> list[int]:
        return [one.pid for one in self._processes.values()]

    def wait(self) -> None:
        """All of them listen."""
        for address in self.addresses:
            wait_until(lambda address=address: _listens(address), "Kafka did not start", START_S)  # type: ignore[misc]

    def __enter__(self) -> Self:
        for number in range(len(self._ports)):
            tool = "kafka.tools.StorageTool"
            done = run_tool(self._jars, tool, "format", "-t", _CLUSTER_ID, "-c", str(self._settings(number)))
            if done.returncode:
                raise RuntimeError(done.stderr)
            self.start(number)
        self.wait()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number in list(self._processes):
            self.kill(number)


def _listens(address: str) -> bool:
    try:
        Line(address).close()
    except OSError:
        return False
    return True
