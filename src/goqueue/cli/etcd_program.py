"""Where an etcd comes from that this program starts itself: `ETCD`, the path, the cache, or built once by Go."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from goqueue.base.etcd_versions import NEEDED, has_known_faults
from goqueue.cli.failures import Failed
from goqueue.cli.go_program import BuildFailed, build_program, cache_folder

VERSION: Final = "3.6.16"  # of the one that is built
_MAIN: Final = """package main

import (
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
)

func main() { etcdmain.Main(os.Args) }
"""


class EtcdMissing(Failed):
    """None is there that can be used, and none could be built."""


def find_etcd(environ: Mapping[str, str] = os.environ, say: Callable[[str], None] = lambda text: None) -> Path:
    """`say` is told of a build, which takes a minute or two, once."""
    if named := environ.get("ETCD"):
        return _checked(Path(named))
    found = shutil.which("etcd", path=environ.get("PATH"))
    if found and not has_known_faults(version_of(Path(found))):
        return Path(found)
    built = cache_folder(environ) / f"etcd-{VERSION}"
    if not built.exists():
        go = shutil.which("go", path=environ.get("PATH"))
        if go is None:
            raise EtcdMissing(_what_to_install(found))
        say(f"building etcd {VERSION}; this is done once and takes a minute or two")
        _build(go, built)
    return built


def _what_to_install(found: str | None) -> str:
    passed_over = f"The one at {found} has known faults. " if found else ""
    return (
        f"A cluster needs etcd, and there is none; {NEEDED}. {passed_over}Install one and name it with "
        "ETCD=/path/to/etcd, or install Go: then one is built."
    )


def _checked(program: Path) -> Path:
    version = version_of(program)
    if not version:
        raise EtcdMissing(f"ETCD names {program}, which is not an etcd that can be run.")
    if has_known_faults(version):
        raise EtcdMissing(f"ETCD names {program}: etcd {version} has known faults; {NEEDED}.")
    return program


def version_of(program: Path) -> str:
    """Empty if it cannot be run, or is something else."""
    try:
        done = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    found = re.search(r"etcd Version: (\S+)", done.stdout)
    return found[1] if found else ""


def _build(go: str, target: Path) -> None:
    steps = [
        ("mod", "init", "etcd"),
        ("get", f"go.etcd.io/etcd/server/v3@v{VERSION}"),
        ("build", "-trimpath", "-ldflags=-s -w", "-o", "program", "."),
    ]
    try:
        build_program(go, target, {"main.go": _MAIN}, steps)
    except BuildFailed as error:
        raise EtcdMissing(f"etcd could not be built: {error}") from None


def etcd_command(
    program: Path, data: Path, client: str, peers: Mapping[str, str], name: str, flags: Sequence[str] = ()
) -> list[str]:
    """One member, for trying and for tests: `client` is its URL, `peers` are those of all members, by name."""
    return [
        str(program),
        f"--name={name}",
        f"--data-dir={data}",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peers[name]}",
        f"--initial-advertise-peer-urls={peers[name]}",
        "--initial-cluster=" + ",".join(f"{one}={url}" for one, url in peers.items()),
        "--heartbeat-interval=50",
        "--election-timeout=500",
        "--auto-compaction-mode=revision",
        "--auto-compaction-retention=10000",
        "--log-level=error",
        *flags,
    ]
