"""What tests have from modules of Go: programs, built once into the user's cache, and files."""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Final

import pytest

from goqueue.cli.go_program import BUILD_S_MAX, BuildFailed, build_program, cache_folder

_SMALL: Final = "-s -w"


def go_here(what: str) -> str:
    """Skips the test where there is no Go."""
    go = shutil.which("go")
    if go is None:
        pytest.skip(f"{what} comes through Go, and there is none")
    return go


def cached(name: str, version: str) -> Path:
    return cache_folder() / f"{name}-{version}"


def module_program(name: str, package: str, version: str, flags: str = "") -> Path:
    """The program of a package at a version; skips the test where it cannot be had. `flags` are the linker's."""
    target = cached(name, version)
    if not target.exists():
        build = ("build", "-trimpath", f"-ldflags={_SMALL} {flags}".rstrip(), "-o", "program", package)
        try:
            build_program(go_here(name), target, {}, [("mod", "init", name), ("get", f"{package}@v{version}"), build])
        except BuildFailed as error:
            pytest.skip(f"{name} could not be built: {error}")
    return target


def module_folder(module: str, version: str) -> Path:
    """The files of a module, for what is in it beside programs. Skips the test where it cannot be had."""
    command = [go_here(module), "mod", "download", "-json", f"{module}@v{version}"]
    with tempfile.TemporaryDirectory() as empty:  # not in a module of somebody's
        done = subprocess.run(command, capture_output=True, text=True, timeout=BUILD_S_MAX, cwd=empty)
    if done.returncode:
        pytest.skip(f"{module} could not be had: {done.stdout[-500:]}{done.stderr[-500:]}")
    return Path(json.loads(done.stdout)["Dir"])
