"""The examples of other languages in docs/clients.md run against a node, where the machine can."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.maven import CLIENTS, client_jars
from bench.node_process import NodeProcess
from goqueue.client import Client
from tests.docs.test_docs import BLOCK, ROOT, matches

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
EXAMPLES = {
    language: (code, expected)
    for language, code, expected in BLOCK.findall((ROOT / "docs/clients.md").read_text())
    if language in ("java", "go", "javascript")
}
FRANZ = "github.com/twmb/franz-go@v1.17.1"
KAFKAJS = "kafkajs@2.2.4"


@pytest.fixture(scope="module")
def a_node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    with NodeProcess(tmp_path_factory.mktemp("clients") / "data") as node:
        with Client(node.url) as client:
            for name in ("java", "go", "js"):
                client.create_topic(f"{name}-orders", partitions=1)
        yield node


def had(command: list[str], place: Path, what: str) -> None:
    """Skips where something cannot be had."""
    try:
        done = subprocess.run(command, cwd=place, capture_output=True, text=True, timeout=180)
    except subprocess.TimeoutExpired:
        pytest.skip(f"{what} cannot be had in time")
    if done.returncode:
        pytest.skip(f"{what} cannot be had: {done.stderr[-300:]}")


def program(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed")
    return found


def check(language: str, node: NodeProcess, file: Path, command: list[str], **environ: str) -> None:
    code, expected = EXAMPLES[language]
    file.write_text(code.replace("localhost:9092", node.kafka))
    done = subprocess.run(
        command, cwd=file.parent, capture_output=True, text=True, timeout=240, env={**os.environ, **environ}
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert matches(done.stdout, expected), done.stdout + done.stderr


def test_java(a_node: NodeProcess, tmp_path: Path) -> None:
    java = program("java")
    jars = client_jars(tmp_path, *CLIENTS)
    if jars is None:
        pytest.skip("Kafka's jars cannot be had")
    check("java", a_node, tmp_path / "Example.java", [java, "-cp", f"{jars}/*", "Example.java"])


def test_go(a_node: NodeProcess, tmp_path: Path) -> None:
    go = program("go")
    (tmp_path / "go.mod").write_text("module example\n\ngo 1.21\n")
    (tmp_path / "main.go").write_text(EXAMPLES["go"][0])
    had([go, "get", FRANZ], tmp_path, FRANZ)
    had([go, "mod", "tidy"], tmp_path, FRANZ)
    check("go", a_node, tmp_path / "main.go", [go, "run", "."])


def test_javascript(a_node: NodeProcess, tmp_path: Path) -> None:
    npm, node = program("npm"), program("node")
    had([npm, "install", "--no-audit", "--no-fund", "--prefer-offline", KAFKAJS], tmp_path, KAFKAJS)
    quiet = {"NODE_NO_WARNINGS": "1", "KAFKAJS_NO_PARTITIONER_WARNING": "1"}
    check("javascript", a_node, tmp_path / "example.js", [node, "example.js"], **quiet)
