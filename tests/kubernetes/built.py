"""`python -m tests.kubernetes.built`: builds what tests of Kubernetes need, once, before any of them counts its time.

From an empty cache this takes a quarter of an hour on two cores, longer than a test may take.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.deploy.helm import helm_program
from tests.etcd import etcd_program
from tests.go_programs import module_program
from tests.kubernetes.programs import kube_program


def cyclonus_program() -> Path:
    """Judges network policies; skips the test where it cannot be had."""
    return module_program("cyclonus", "github.com/mattfenwick/cyclonus/cmd/cyclonus", "0.5.6")


def main() -> None:
    programs: tuple[Callable[[], Path], ...] = (etcd_program, kube_program, helm_program, cyclonus_program)
    for number, program in enumerate(programs, 1):
        name = program.__name__.removesuffix("_program")
        print(f"{number} of {len(programs)}: {name} ...", flush=True)
        began = time.monotonic()
        try:
            print(f"    {program()} ({time.monotonic() - began:.0f} s)", flush=True)
        except pytest.skip.Exception as error:
            print(f"    its tests will be skipped: {error}", flush=True)


if __name__ == "__main__":
    main()
