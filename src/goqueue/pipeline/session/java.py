"""The Java that Spark runs on: which one is taken, and what to do where there is none."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import msgspec

from goqueue.pipeline.link.errors import PipelineError

OLDEST: Final = 17
PLACES: Final = Path("/usr/lib/jvm")  # where Debian and its kin keep them
_ANSWER_SECONDS: Final = 30.0
_WHAT_TO_DO: Final = (
    "Install one (Debian, Ubuntu: `apt-get install openjdk-17-jre-headless`), "
    "or set JAVA_HOME to the directory of a Java 17 or 21."
)


class JavaMissing(PipelineError):
    """No Java was found."""


class JavaTooOld(PipelineError):
    """Every Java that was found is older than Spark can run on."""


class Java(msgspec.Struct, frozen=True):
    """A directory with `bin/java` in it, and the major version of that."""

    home: Path
    version: int


def find_java(environ: Mapping[str, str] = os.environ, places: Path = PLACES) -> Java:
    """The first that Spark can run on, of JAVA_HOME, the PATH and the usual places; `JavaMissing` or `JavaTooOld`."""
    too_old: list[Java] = []
    for home in _homes(environ, places):
        java = Java(home, _version(home))
        if java.version >= OLDEST:
            return java
        too_old.append(java)
    if too_old:
        raise JavaTooOld(_too_old(too_old))
    raise JavaMissing(_missing(environ))


def _homes(environ: Mapping[str, str], places: Path) -> Iterator[Path]:
    named = environ.get("JAVA_HOME")
    if named and _runs(Path(named)):
        yield Path(named)
    on_path = shutil.which("java", path=environ.get("PATH", ""))
    if on_path is not None:
        yield Path(on_path).resolve().parents[1]
    yield from (home for home in sorted(places.glob("*")) if _runs(home))


def _runs(home: Path) -> bool:
    return os.access(home / "bin" / "java", os.X_OK)


def _version(home: Path) -> int:
    """The major version; 0 where it cannot be told."""
    # Every build since Java 8 has this file; reading it saves starting a virtual machine.
    try:
        told = (home / "release").read_text(errors="replace")
    except OSError:
        told = _asked(home)
    return major_of(told)


def _asked(home: Path) -> str:
    command = [str(home / "bin" / "java"), "-version"]
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=_ANSWER_SECONDS).stderr
    except (OSError, subprocess.TimeoutExpired):
        return ""


def major_of(told: str) -> int:
    """17 of `17.0.15`, 8 of `1.8.0_392`, 0 where there is no version in quotes."""
    found = re.search(r'(?:JAVA_VERSION=|version )"(?:1\.)?(\d+)', told)
    return int(found[1]) if found else 0


def _too_old(found: list[Java]) -> str:
    listed = ", ".join(f"{java.home} ({java.version or 'version unknown'})" for java in found)
    return f"Spark needs Java {OLDEST} or newer; found only {listed}. {_WHAT_TO_DO}"


def _missing(environ: Mapping[str, str]) -> str:
    named = environ.get("JAVA_HOME")
    where = f"JAVA_HOME is {named}, which has no bin/java, and there" if named else "There"
    return f"Spark needs Java {OLDEST} or newer. {where} is none on the PATH or in {PLACES}. {_WHAT_TO_DO}"
