"""What shells complete: commands, options, and names that the broker knows now."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import uuid
from pathlib import Path

import pytest

from goqueue.client import Client
from goqueue.client.schemas import NewSchema
from tests.cli.running import COMMAND, goqueue
from tests.cli.terminal import terminal

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


def test_zsh_completes_a_line_when_tab_is_pressed(server_url: str, name: str, tmp_path: Path) -> None:
    zsh = _program("zsh")
    with Client(server_url) as client:
        client.create_topic(f"{name}-zsh", partitions=1)
    (tmp_path / ".zshrc").write_text(
        'autoload -Uz compinit && compinit -u -d "$ZDOTDIR/dump"\neval "$(goqueue completion zsh)"\nPS1="zsh> "\n'
    )
    env = {"PATH": f"{ENTRY}:{os.environ['PATH']}", "GOQUEUE_SERVER": server_url, "ZDOTDIR": str(tmp_path)}
    with terminal(tmp_path, ["-d", "-i"], env, command=[zsh]) as shown:
        shown.wait_for("zsh>")
        shown.type("goqueue queue li", "Tab")
        shown.wait_for("goqueue queue list")
        shown.type("C-u", f"goqueue topic describe {name}-z", "Tab")
        shown.wait_for(f"goqueue topic describe {name}-zsh")
        shown.type("C-u", "exit", "Enter")


def test_fish_completes_a_line(server_url: str, name: str, tmp_path: Path) -> None:
    fish = _program("fish")
    with Client(server_url) as client:
        client.create_topic(f"{name}-fish", partitions=1)
    lines = ("goqueue queue li", f"goqueue topic describe {name}-f")
    asked = "; ".join(f"complete -C {shlex.quote(line)}" for line in lines)
    environ = {
        **os.environ,
        "PATH": f"{ENTRY}:{os.environ['PATH']}",
        "GOQUEUE_SERVER": server_url,
        "HOME": str(tmp_path),
        "XDG_CONFIG_HOME": str(tmp_path),
    }
    program = f"goqueue completion fish | source; {asked}"
    done = subprocess.run([fish, "-c", program], env=environ, capture_output=True, text=True, timeout=60)
    found = [line.partition("\t")[0] for line in done.stdout.splitlines()]
    assert found == ["list", f"{name}-fish"], done.stderr


def _program(shell: str) -> str:
    found = shutil.which(shell)
    if found is None:
        pytest.skip(f"{shell} is not installed")
    return found
