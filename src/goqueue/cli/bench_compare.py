"""`goqueue bench compare`: GoQueue side by side with other brokers, by the benchmarks of a checkout."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import click

import goqueue
from goqueue.cli.failures import Failed

# What the loads are made with; the clients of other brokers are asked for one by one, and who lacks one is left out.
_PACKAGES: Final = ("confluent_kafka", "boto3")


def _several(name: str, text: str) -> click.Option:
    return click.Option([name], multiple=True, metavar="NAME", help=f"{text}; may be repeated.")


@click.command(
    params=[
        click.Option(
            ["--quick"], is_flag=True, help="Minutes instead of an hour: few rounds, one node, some scenarios."
        ),
        _several("--scenario", "Only this scenario"),
        _several("--system", "Only this broker"),
        click.Option(["--json"], type=click.Path(dir_okay=False), help="Write everything that was found there."),
        click.Option(["--resume"], is_flag=True, help="Go on with a run that was interrupted, by --json's file."),
        click.Option(["--docs"], type=click.Path(file_okay=False), help="Write a page and drawings there."),
        click.Option(["--guard"], is_flag=True, help="Exit code 1 if something lost a fifth since it was accepted."),
        click.Option(["--accept"], is_flag=True, help="Compare later runs with what this one finds."),
    ]
)
def compare(
    quick: bool,
    scenario: Sequence[str],
    system: Sequence[str],
    json: str | None,
    resume: bool,
    docs: str | None,
    guard: bool,
    accept: bool,
) -> None:
    """Run other brokers beside GoQueue on this machine, and compare.

    Each is started fresh on loopback with a configuration that is printed, and every message is read back. It needs a
    checkout of GoQueue with its benchmarks; `make compare` there also installs what is missing. A broker that cannot be
    had is reported as absent.
    """
    if resume and json is None:
        raise click.UsageError("--resume needs --json, the file of the run that it goes on with")
    given = {"--quick": quick, "--resume": resume, "--guard": guard, "--accept": accept}
    flags = [name for name, is_set in given.items() if is_set]
    named = [(("--scenario", one)) for one in scenario] + [("--system", one) for one in system]
    named += [(name, place) for name, place in (("--json", json), ("--docs", docs)) if place is not None]
    root = checkout(Path(goqueue.__file__))
    command = [sys.executable, "-m", "bench.compare", *flags, *(word for pair in named for word in pair)]
    path = os.pathsep.join(filter(None, (str(root), str(root / "src"), os.environ.get("PYTHONPATH"))))
    environ = {"KAFKA_FETCH": "1", **os.environ, "PYTHONPATH": path}
    raise click.exceptions.Exit(subprocess.run(command, env=environ, check=False).returncode)


def checkout(package: Path) -> Path:
    """The tree with the benchmarks that the package is part of."""
    root = package.resolve().parents[2]
    if not (root / "bench/compare/__main__.py").is_file():
        raise Failed("Comparing needs a checkout of GoQueue, where the benchmarks are: run `make compare` there.")
    if missing := [name for name in _PACKAGES if find_spec(name) is None]:
        raise Failed(f"Comparing needs {' and '.join(missing)}: run `make compare`, or `pip install -e '.[bench]'`.")
    return root
