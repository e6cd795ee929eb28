"""Apache Kafka itself, one node in KRaft mode on loopback, to hold answers against.

Its jars are looked for in the directory that `KAFKA_JARS` names, then in Maven's local repository, offline. To
have them there: `KAFKA_FETCH=1` lets Maven download them. Where there is no Java or no jars, there is no Kafka.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from types import TracebackType

from bench.maven import kafka_jars
from tests.door.kafka.raw import Line, free_port
from tests.waiting import wait_until

VERSION = "4.1.0"
SHARE_VERSION = "4.2.0"  # the first whose share groups are no preview
START_S = 120
_ARTIFACTS = ("kafka_2.13", "kafka-tools")
_PROPERTIES = """process.roles=broker,controller
node.id=0
controller.quorum.voters=0@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT
log.dirs={data}
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=1
group.initial.rebalance.delay.ms=0
group.consumer.min.heartbeat.interval.ms=300
group.consumer.heartbeat.interval.ms=300
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
share.coordinator.state.topic.num.partitions=1
group.share.partition.max.record.locks=10000
"""


def find_jars(scratch: Path, version: str = VERSION) -> Path | None:
    """A directory with Kafka's jars; None if they cannot be had."""
    named = os.environ.get("KAFKA_JARS")
    if shutil.which("java") is None:
        return None
    if named is not None:
        return Path(named) if list(Path(named).glob("kafka_2.13-*.jar")) else None
    return kafka_jars(scratch, _ARTIFACTS, version)


def run_tool(jars: Path, main: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """One of Kafka's own tools."""
    command = ["java", "-Xmx256m", "-XX:+UseSerialGC", "-cp", f"{jars}/*", main, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


class ApacheKafka:
    """`with ApacheKafka(jars, scratch) as kafka:` serves at `kafka.address`."""

    def __init__(self, jars: Path, scratch: Path) -> None:
        self._jars = jars
        self._scratch = scratch
        port = free_port()
        self.address = f"127.0.0.1:{port}"
        self._properties = scratch / "server.properties"
        self._properties.write_text(_PROPERTIES.format(port=port, controller=free_port(), data=scratch / "kafka-data"))
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> ApacheKafka:
        formatted = run_tool(
            self._jars, "kafka.tools.StorageTool", "format", "-t", "MkU3OEVBNTcwNTJENDM2Qk", "-c", str(self._properties)
        )
        assert formatted.returncode == 0, formatted.stderr
        command = ["java", "-Xmx512m", "-XX:+UseSerialGC", "-cp", f"{self._jars}/*", "kafka.Kafka"]
        log = (self._scratch / "kafka.out").open("wb")
        self._process = subprocess.Popen([*command, str(self._properties)], stdout=log, stderr=log)
        log.close()
        self._wait()
        return self

    def _wait(self) -> None:
        wait_until(self._answers, "Kafka did not start", START_S)

    def _answers(self) -> bool:
        assert self._process is not None and self._process.poll() is None, "Kafka ended"
        try:
            Line(self.address).close()
        except OSError:
            return False
        return True

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait(30)
