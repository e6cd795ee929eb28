"""What shells complete: commands, options, and names that the broker knows now."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import uuid
from pathlib import Path

import pytest

from goqueue.client import Client
from goqueue.client.schemas import NewSchema
from tests.cli.running import COMMAND, goqueue

ENTRY = Path(sys.executable).parent


@pytest.fixture(scope="module")
def name() -> str:
    return f"complete-{uuid.uuid4().hex[:8]}"


def offered(line: str, server: str, **env: str) -> list[str]:
    """What bash would offer for the last word."""
    words = line.split(" ")
    environ = {**os.environ, "GOQUEUE_SERVER": server, "COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1), **env}
    done = subprocess.run(
        COMMAND, env=environ | {"_GOQUEUE_COMPLETE": "bash_complete"}, capture_output=True, text=True, timeout=60
    )
    assert done.stderr == ""
    return [one.partition(",")[2] for one in done.stdout.splitlines() if one]


def test_live_names(server_url: str, name: str) -> None:
    with Client(server_url) as client:
        client.create_topic(name, partitions=1)
        client.register_schema(f"{name}-value", NewSchema('"string"', "AVRO", []))
        with client.consumer(f"{name}-group", [name], mode="shared"):
            pass
    assert offered(f"goqueue topic describe {name[:12]}", server_url) == [name]
    assert offered(f"goqueue consume {name[:12]}", server_url) == [name]
    assert offered(f"goqueue group describe {name[:12]}", server_url) == [f"{name}-group"]
    assert offered(f"goqueue queue show {name} {name[:12]}", server_url) == [f"{name}-group"]
    assert offered(f"goqueue schema show {name[:12]}", server_url) == [f"{name}-value"]
    assert offered(f"goqueue topic describe --server {server_url} {name[:12]}", "http://127.0.0.1:1") == [name]


def test_commands_and_silence(tmp_path: Path) -> None:
    nobody = "http://127.0.0.1:1"
    assert offered("goqueue sta", nobody) == ["status"]
    assert offered("goqueue topic des", nobody) == ["describe"]
    assert offered("goqueue topic list -o ", nobody) == ["table", "json", "yaml", "name"]
    assert offered("goqueue topic describe ", nobody) == [], "no broker, no names, no words"
    home = {"XDG_CONFIG_HOME": str(tmp_path)}
    goqueue("context", "add", "prod", "--server", "http://127.0.0.1:2", env=home)
    assert offered("goqueue context use p", nobody, **home) == ["prod"]
    (tmp_path / "goqueue" / "contexts.json").write_text("{")
    assert offered("goqueue context use p", nobody, **home) == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_takes_its_script(shell: str) -> None:
    done = goqueue("completion", shell)
    assert done.exit_code == 0 and "_GOQUEUE_COMPLETE" in done.stdout
    if (program := shutil.which(shell)) is not None:
        subprocess.run([program, "-n"], input=done.stdout, text=True, check=True, timeout=60)
    assert goqueue("completion", "tcsh").exit_code == 2


def test_bash_completes_a_line(server_url: str, name: str) -> None:
    """In a bash: the script is taken, and its function called as Tab would."""
    program = (
        'eval "$(goqueue completion bash)"\n'
        'COMP_WORDS=(goqueue queue li); COMP_CWORD=2; _goqueue_completion goqueue; echo "${COMPREPLY[@]}"'
    )
    environ = {**os.environ, "PATH": f"{ENTRY}:{os.environ['PATH']}", "GOQUEUE_SERVER": server_url}
    done = subprocess.run(["bash", "-c", program], env=environ, capture_output=True, text=True, timeout=60)
    assert done.stdout.split() == ["list"], done.stderr
