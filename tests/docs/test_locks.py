"""`make run` installs what a node needs and no more; all lock files agree."""

from __future__ import annotations

import re
import subprocess
import sys
from itertools import combinations
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LOCKS = ("node", "cluster", "grpc", "pipeline", "docs", "bench", "test")
PIN = re.compile(r"^([a-z0-9.-]+)(?:\[[a-z0-9,-]+\])?==(\S+)", re.MULTILINE)

# Imports every module of the node, the commands and the client while only the named distributions can be imported.
IMPORT_ALL = """
import re, sys
from importlib import import_module
from importlib.metadata import packages_distributions
from pathlib import Path

allowed, owners = {"goqueue", *sys.argv[1:]}, packages_distributions()

class Absent:
    def find_spec(self, name, path=None, target=None):
        found = {re.sub("[-_.]+", "-", owner).lower() for owner in owners.get(name.partition(".")[0], ())}
        if found and not found & allowed:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Absent())
import goqueue

root = Path(goqueue.__file__).parent
for file in sorted(root.rglob("*.py")):
    parts = file.relative_to(root).with_suffix("").parts
    of_store = parts[0] == "drive" and parts[-1].startswith("etcd_")  # a node that is alone has no client for it
    of_grpc = (parts[:2] == ("edge", "grpc") and parts[-1] != "opening") or parts[-1] == "goqueue_pb2_grpc"
    of_grpc = of_grpc or (parts[0] == "client" and parts[-1].startswith("grpc_"))
    if parts[0] not in ("pipeline", "sim") and parts[-1] != "__main__" and not of_store and not of_grpc:
        import_module(".".join(("goqueue", *(part for part in parts if part != "__init__"))))
import google.protobuf, jsonschema_rs
from click.testing import CliRunner
from goqueue.cli import app
store = {"GOQUEUE_CLUSTER_STORE": "etcd://127.0.0.1:1"}
for command in (["serve", "--data", "/nowhere"], ["cluster", "up", "--data", "/nowhere"]):
    done = CliRunner().invoke(app, command, env=store)
    told = ("pip install 'goqueue[cluster]'", "make cluster")
    assert done.exit_code == 1 and all(text in done.stderr for text in told), done.output
try:
    import pyspark
except ModuleNotFoundError:
    print("whole")
"""


def pins(name: str) -> dict[str, list[str]]:
    """Each package's versions: more than one where an old Python needs another."""
    found: dict[str, list[str]] = {}
    for package, version in PIN.findall((ROOT / f"requirements-{name}.lock").read_text()):
        found.setdefault(package, []).append(version)
    return found


def make(target: str) -> str:
    """The commands of a first `make TARGET`, not run."""
    command = ["make", "--dry-run", "--always-make", "VENV=/nowhere", target]
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=True).stdout


def test_all_lock_files_name_the_same_versions() -> None:
    for one, other in combinations(map(pins, LOCKS), 2):
        shared = one.keys() & other.keys()
        assert {name: one[name] for name in shared} == {name: other[name] for name in shared}


def test_every_requirement_is_locked_by_hash() -> None:
    for name in LOCKS:
        blocks = re.split(r"\n(?=[a-z])", (ROOT / f"requirements-{name}.lock").read_text().strip())
        assert len(blocks) == sum(map(len, pins(name).values()))
        assert all("--hash=sha256:" in block for block in blocks), name


def test_a_node_is_installed_without_spark_and_the_tools_of_development() -> None:
    node = pins("node")
    for heavy in ("pyspark", "pandas", "pyarrow", "deltalake", "confluent-kafka", "mypy", "pytest", "boto3"):
        assert heavy not in node
    assert {"jsonschema-rs", "protobuf"} <= node.keys()  # a node checks JSON schemas and Protobuf
    assert len(node) < 45


def test_the_nodes_lock_is_all_that_the_node_the_commands_and_the_client_import() -> None:
    done = subprocess.run([sys.executable, "-c", IMPORT_ALL, *pins("node")], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("whole\n", "")


@pytest.mark.parametrize(
    ("target", "locks"),
    [
        ("run", ["node"]),
        ("grpc", ["node", "grpc"]),
        ("cluster", ["node", "cluster"]),
        ("test", ["node", "test", "docs"]),
        ("docs", ["node", "docs", "grpc"]),
        ("bench", ["node", "bench"]),
        ("pipeline-demo", ["node", "pipeline"]),
    ],
)
def test_each_command_installs_its_own_lock_files(target: str, locks: list[str]) -> None:
    assert re.findall(r"-r requirements-(\w+)\.lock", make(target)) == locks
