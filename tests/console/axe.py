"""axe-core, a checker of accessibility, from npm; pages are checked without it where it cannot be had."""

from __future__ import annotations

import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest

from tests.console.chromium import Chromium

VERSION = "4.10.2"
_RUN = """axe.run(document, {runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]}).then((found) =>
  found.violations.map((one) => one.id + ": " + one.nodes.slice(0, 4).map((node) => node.target.join(" ") + " " +
  (node.any[0]?.message ?? node.all[0]?.message ?? "")).join(" | ")))"""


def axe_script(directory: Path) -> str | None:
    """Its source; None if npm or its registry is not there."""
    npm = shutil.which("npm")
    if npm is None:
        return None
    command = [npm, "pack", "--prefer-offline", "--silent", f"axe-core@{VERSION}"]
    try:
        done = subprocess.run(command, cwd=directory, capture_output=True, text=True, timeout=60)
    except subprocess.TimeoutExpired:
        return None
    found = list(directory.glob("axe-core-*.tgz"))
    if done.returncode or not found:
        return None
    with tarfile.open(found[0]) as packed:
        source = packed.extractfile("package/axe.min.js")
        return None if source is None else source.read().decode()


def skip_if_missing(axe: str | None) -> None:
    """At the end of a test that checked all else."""
    if axe is None:
        pytest.skip(f"axe-core {VERSION} cannot be had: npm or its registry is missing; all else was checked")


def check(browser: Chromium, axe: str | None, where: str) -> None:
    """No violation of WCAG 2.2 AA that a program can find."""
    if axe is None:
        return
    if not browser.run("'axe' in window"):
        browser.run(f"{axe}; true")
    found = browser.run(_RUN)
    if found:
        pytest.fail(f"{where}: " + "\n".join(found))
