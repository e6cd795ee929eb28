"""A real node in a process of its own, for benchmarks and for tests through its doors."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

_START_S: Final = 180.0  # a busy machine is slow; a node that waits for others that never come is wrong


class NodeProcess:
    """`with NodeProcess(dir) as node:` serves at `node.url` until the block is left."""

    def __init__(
        self,
        data_dir: Path,
        *flags: str,
        settings: dict[str, str] | None = None,
        tree: Path | None = None,
        under: Sequence[str] = (),
        program: str = "",
    ) -> None:
        """`tree` is a checkout whose code the node runs, if not this one's; `under` a program that runs the node;
        `program` the Python that it runs, if that is not the command line."""
        self.data_dir = data_dir
        self._command = [
            *under,
            sys.executable,
            "-c",
            program or os.environ.get("NODE_PROGRAM", "from goqueue.cli import main; main()"),
            "serve",
            "--data",
            str(data_dir),
            "--rest",
            "127.0.0.1:0",
            "--kafka",
            "127.0.0.1:0",
            "--sqs",
            "127.0.0.1:0",
            *(("--grpc", "127.0.0.1:0") if has_grpc(tree) else ()),
            *flags,
        ]
        # A crowded disk must not decide about tests and figures.
        chosen = {"GOQUEUE_LOG_DISK_USED_PERCENT_MAX": "100", **(settings or {})}
        if "NODE_SHARDS" in os.environ:
            chosen.setdefault("GOQUEUE_NODE_SHARDS", os.environ["NODE_SHARDS"])
        mine = {name: value for name, value in os.environ.items() if not name.startswith("GOQUEUE_")}
        self._environ = {"PYTHONFAULTHANDLER": "1", **mine, **chosen}
        if tree is not None:
            self._environ["PYTHONPATH"] = str(tree.resolve() / "src")
        self._process: subprocess.Popen[str] | None = None
        self.url = ""
        self.kafka = ""
        self.sqs = ""
        self.grpc = ""
        self.block = ""

    def start(self) -> Self:
        """Returns when the node is ready; raises with its output if it does not start."""
        log = (self.data_dir.parent / f"{self.data_dir.name}.stderr").open("a")
        self._process = subprocess.Popen(
            self._command, stdout=subprocess.PIPE, stderr=log, text=True, env=self._environ
        )
        log.close()
        assert self._process.stdout is not None
        self.block = ""
        too_late = threading.Timer(_START_S, self._process.kill)
        too_late.start()
        for line in self._process.stdout:
            self.block += line
            if line.startswith("Ready"):
                break
        too_late.cancel()
        found = re.search(r"REST\s+(https?://\S+)", self.block)
        if found is None:
            raise RuntimeError(f"the node did not start:\n{self.block}\n{self.stderr}")
        self.url = found[1]
        kafka = re.search(r"Kafka\s+(\S+)", self.block)
        self.kafka = kafka[1] if kafka else ""
        sqs = re.search(r"SQS\s+(https?://\S+)", self.block)
        self.sqs = sqs[1] if sqs else ""
        grpc = re.search(r"gRPC\s+(\S+)", self.block)
        self.grpc = grpc[1] if grpc else ""
        return self

    @property
    def stderr(self) -> str:
        return (self.data_dir.parent / f"{self.data_dir.name}.stderr").read_text()

    @property
    def is_alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def rss_bytes(self) -> int:
        fields = Path(f"/proc/{self.pid}/statm").read_text().split()
        return int(fields[1]) * os.sysconf("SC_PAGE_SIZE")

    def cpu_seconds(self) -> float:
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def send_signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def kill(self) -> None:
        """`kill -9`, and wait until it is gone."""
        self._end(signal.SIGKILL)

    def stop(self) -> int:
        """SIGTERM; the exit code."""
        return self._end(signal.SIGTERM)

    def _end(self, number: signal.Signals) -> int:
        process, self._process = self._process, None
        if process is None:
            return 0
        process.send_signal(number)
        code = process.wait(60)
        if process.stdout is not None:
            process.stdout.close()
        return code

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def has_grpc(tree: Path | None) -> bool:
    """Earlier checkouts do not know that door."""
    return tree is None or (tree / "src/goqueue/base/grpc_settings.py").exists()
