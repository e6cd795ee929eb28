"""kafkajs, installed from npm: a client that shares no line with the others."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.door.kafka.raw import unique

SCRIPT = Path(__file__).parent / "kafkajs_script.js"
VERSION = "2.2.4"


@pytest.fixture(scope="module")
def modules(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory of node modules with kafkajs in it."""
    npm = shutil.which("npm")
    if npm is None or shutil.which("node") is None:
        pytest.skip("node and npm are not installed")
    place = tmp_path_factory.mktemp("kafkajs")
    command = [npm, "install", "--no-audit", "--no-fund", "--prefer-offline", f"kafkajs@{VERSION}"]
    try:
        done = subprocess.run(command, cwd=place, capture_output=True, text=True, timeout=60)
    except subprocess.TimeoutExpired:
        pytest.skip("the npm registry does not answer")
    if done.returncode:
        pytest.skip(f"kafkajs cannot be installed: {done.stderr.strip()[:200]}")
    return place / "node_modules"


@pytest.mark.slow
def test_kafkajs_finds_everything_where_it_expects_it(kafka: str, modules: Path) -> None:
    topic, group = unique("js"), unique("g")
    environ = {**os.environ, "NODE_PATH": str(modules), "NODE_NO_WARNINGS": "1", "KAFKAJS_NO_PARTITIONER_WARNING": "1"}
    done = subprocess.run(
        ["node", str(SCRIPT), kafka, topic, group], capture_output=True, text=True, timeout=60, env=environ
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert (found["created"], found["again"], found["partitions"]) == (True, False, 3)
    once: list[dict[str, Any]] = [
        {"key": "a", "size": 4, "headers": {"h": "1"}},
        {"key": None, "size": 6, "headers": {}},
        {"key": "no value", "size": None, "headers": {}},
        {"key": "large", "size": 1_000_000, "headers": {}},
    ]
    assert found["messages"] == [{"offset": str(at), **one} for at, one in enumerate([*once, *once])]
    assert found["whole"] == 2
    assert found["resumed"] == ["5", "6", "7"]
    assert found["sought"] == ["0", "6", "7"]
    assert (found["byTime"], found["committed"], found["moved"], found["low"]) == ("2", "5", "2", "4")
    assert (found["groups"], found["described"], found["gone"]) == (True, "Empty", True)
