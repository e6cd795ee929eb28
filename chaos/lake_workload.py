"""Messages into a lake of Delta tables by the archive pipeline on Spark, which goes on while nodes come and go."""

from __future__ import annotations

import importlib.util
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from chaos.clients import Client, RestSender
from chaos.histories import Findings, merged
from chaos.workload import Workload
from tests.cluster.clients import Cluster, make_topic

_EVERY: Final = "3s"  # each round imports PySpark anew: a second of a core


def no_spark() -> str:
    """Why the pipeline cannot run here."""
    missing = [name for name in ("pyspark", "deltalake") if importlib.util.find_spec(name) is None]
    missing += [] if shutil.which("java") else ["java"]
    return f"the pipeline needs {', '.join(missing)}" if missing else ""


class Archiver(Client):
    """One round after the other; a pipeline that ended is started again, and goes on where the last round ended."""

    def __init__(self, cluster: Cluster, seed: int, topic: str, lake: Path) -> None:
        super().__init__(cluster, seed)
        self._topic = topic
        self._lake = lake
        self._log = lake.parent / "pipeline.log"
        self._process: subprocess.Popen[bytes] | None = None
        self._version = -1
        self._values: list[str] = []
        self.starts = 0

    def work(self) -> None:
        if self._process is None or self._process.poll() is not None:
            self._begin()
        self.stopping.wait(0.2)

    def _begin(self) -> None:
        asked = ["--topics", self._topic, "--lake", str(self._lake), "--kafka", self.cluster.bootstrap]
        program = [sys.executable, "-c", "from goqueue.cli import main; main()"]
        command = [*program, "pipeline", "run", "archive", *asked, "--every", _EVERY, "--master", "local[1]"]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log)
        self.starts += 1

    def close(self) -> None:
        super().close()
        if self._process is None:
            return
        self._process.send_signal(signal.SIGINT)
        try:
            self._process.wait(60)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(60)

    @property
    def told(self) -> str:
        """The end of what the pipeline said."""
        return self._log.read_text(errors="replace")[-800:] if self._log.exists() else ""

    def values(self) -> list[str]:
        """All that the lake holds, in order of partition and offset."""
        from deltalake import DeltaTable

        place = self._lake / "messages"
        if not (place / "_delta_log").exists():
            return self._values
        table = DeltaTable(str(place))
        if table.version() != self._version:
            rows = table.to_pyarrow_table(columns=["partition", "offset", "value"]).to_pylist()
            ordered = sorted(rows, key=lambda row: (row["partition"], row["offset"]))
            self._version, self._values = table.version(), [bytes(row["value"]).decode() for row in ordered]
        return self._values


class LakeWorkload(Workload):
    """Everything that was acknowledged is in the lake in the end, once, in order."""

    name = "lake"

    def __init__(self, cluster: Cluster, seed: int) -> None:
        super().__init__(cluster, seed)
        self.topics = [make_topic(cluster, 3)]
        self._folder = tempfile.TemporaryDirectory(prefix="goqueue-chaos-lake-")
        self._sender = RestSender(cluster, seed, self.topics[0])
        self._archiver = Archiver(cluster, seed + 1, self.topics[0], Path(self._folder.name) / "lake")
        self.senders, self.takers = [self._sender], [self._archiver]

    def missing(self) -> Iterable[str]:
        return set(self._sender.sends.acked) - set(self._archiver.values())

    def abandon(self) -> None:
        super().abandon()
        self._archiver.close()
        self._folder.cleanup()

    def broken(self) -> Findings:
        sends = self._sender.sends
        return merged(sends.check(self._archiver.values()), sends.check(self.values(self.topics[0])))

    def counts(self) -> dict[str, int]:
        return {
            "acknowledged": len(self._sender.sends.acked),
            "in the lake": len(self._archiver.values()),
            "starts of the pipeline": self._archiver.starts,
        }
