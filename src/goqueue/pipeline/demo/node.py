"""The demo's node: `goqueue serve` in a process of its own, with every message traced."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Final

from goqueue.pipeline.link.errors import PipelineError

_STOP_S: Final = 60.0
_SETTINGS: Final = {
    "GOQUEUE_TRACES_SAMPLE_RATE": "1",
    "GOQUEUE_TRACES_FILES_MAX": "1000",
    "GOQUEUE_LOG_DISK_USED_PERCENT_MAX": "100",
}
_COMMAND: Final = (sys.executable, "-c", "from goqueue.cli import main; main()", "serve")
_ANY: Final = "127.0.0.1:0"


class DemoNode:
    """`with DemoNode(dir) as node:` serves at `node.url` and `node.kafka` until the block is left."""

    def __init__(self, data: Path) -> None:
        self.data = data
        self.url = ""
        self.kafka = ""
        self._process: subprocess.Popen[str] | None = None

    @property
    def traces(self) -> Path:
        """Where it writes what happened to each message."""
        return self.data / "traces"

    def __enter__(self) -> DemoNode:
        self.data.parent.mkdir(parents=True, exist_ok=True)
        flags = ("--data", str(self.data), "--rest", _ANY, "--kafka", _ANY, "--sqs", "off", "--grpc", "off")
        with (self.data.parent / "node.log").open("a") as log:
            mine = {name: value for name, value in os.environ.items() if not name.startswith("GOQUEUE_")}
            self._process = subprocess.Popen(
                [*_COMMAND, *flags], stdout=subprocess.PIPE, stderr=log, text=True, env=mine | _SETTINGS
            )
        self._read_addresses(self._process)
        return self

    def _read_addresses(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        block = ""
        for line in process.stdout:
            block += line
            if line.startswith("Ready"):
                break
        rest, kafka = re.search(r"REST\s+(http://\S+)", block), re.search(r"Kafka\s+(\S+)", block)
        if rest is None or kafka is None:
            process.wait(_STOP_S)
            raise PipelineError(f"The demo's node did not start; {self.data.parent / 'node.log'} says why.")
        self.url, self.kafka = rest[1], kafka[1]

    def __exit__(self, kind: type[BaseException] | None, why: BaseException | None, at: TracebackType | None) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.send_signal(signal.SIGTERM)
            process.wait(_STOP_S)
            assert process.stdout is not None
            process.stdout.close()
