"""What failed beside others gets a second try, alone: `python -m tests.second_try` behind a run that failed.

Real processes share the machine with other tests, and some deadlines pass on a busy one. Both tries are printed. There
is no second try for a test that saw messages lost, doubled or out of order, nor where many tests failed.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

import msgspec
import pytest

FAILURES: Final = Path(__file__).parents[1] / ".pytest_cache" / "failures.json"
MOST: Final = 5
COLLECTION: Final = "could not be collected"
NEVER_AGAIN: Final = re.compile(
    r"(?<![\w-])"  # a connection that broke is told as `connection-lost`, and is no message
    r"(lost|loses|twice|doubled?s?|duplicates?|reordered|out of order|came again|two have|torn)\b"
    f"|{COLLECTION}",
    re.IGNORECASE,
)


class Failures:
    """Notes what failed in this run, and why."""

    def __init__(self) -> None:
        self._found: dict[str, str] = {}
        FAILURES.unlink(missing_ok=True)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._found[report.nodeid.partition("@")[0]] = reason(report.longreprtext)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self._found[report.nodeid] = COLLECTION

    def pytest_sessionfinish(self, exitstatus: int) -> None:
        if exitstatus == pytest.ExitCode.TESTS_FAILED and self._found:
            FAILURES.parent.mkdir(exist_ok=True)
            FAILURES.write_bytes(msgspec.json.encode(self._found))


def reason(text: str) -> str:
    """The line that failed and what was said about it, without the source around it."""
    return "\n".join(line for line in text.splitlines() if line.startswith(("E ", "> ")))


def refused(failures: Mapping[str, str]) -> str | None:
    """Why there is no second try."""
    if len(failures) > MOST:
        return f"{len(failures)} tests failed, and {MOST} at most are tried again."
    harmed = [name for name, why in failures.items() if NEVER_AGAIN.search(why)]
    return f"A check of messages failed, which is not tried again: {', '.join(harmed)}" if harmed else None


def main() -> int:
    if not FAILURES.exists():
        print("No tests that failed were noted; there is no second try.")
        return 1
    failures = msgspec.json.decode(FAILURES.read_bytes(), type=dict[str, str])
    if (why := refused(failures)) is not None:
        print(why)
        return 1
    return _again(failures)


def _again(names: Iterable[str]) -> int:
    print("A second try, alone, of:", *names, sep="\n  ")
    return subprocess.run([sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *names], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
