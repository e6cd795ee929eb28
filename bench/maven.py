"""Jars out of Maven's local repository, offline; `KAFKA_FETCH=1` lets Maven download what is missing."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

_POM = """<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>local</groupId><artifactId>beside</artifactId><version>1</version><dependencies>{}
</dependencies></project>"""
_DEPENDENCY = "<dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version>{}</dependency>"
_ALONE = "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>"
_QUIET = ("org.slf4j", "slf4j-nop", "1.7.36")
CLIENTS = ("4.2.0", "4.1.0")  # with share consumers, the newest first


def kafka_jars(scratch: Path, artifacts: Sequence[str], version: str) -> Path | None:
    return maven_jars(scratch, [("org.apache.kafka", one, version) for one in artifacts])


def maven_jars(scratch: Path, artifacts: Sequence[tuple[str, str, str]], alone: bool = False) -> Path | None:
    """A directory with these (group, name, version) and, unless `alone`, all that they need; None if they cannot be
    had."""
    if shutil.which("mvn") is None:
        return None
    wanted, rule = (artifacts, _ALONE) if alone else ([*artifacts, _QUIET], "")
    dependencies = "".join(_DEPENDENCY.format(*one, rule) for one in wanted)
    (scratch / "pom.xml").write_text(_POM.format(dependencies))
    online = [] if os.environ.get("KAFKA_FETCH") == "1" else ["-o"]
    command = ["mvn", "-q", "-B", *online, "dependency:copy-dependencies", f"-DoutputDirectory={scratch / 'jars'}"]
    done = subprocess.run(command, cwd=scratch, capture_output=True, timeout=600, check=False)
    return scratch / "jars" if done.returncode == 0 else None


def client_jars(scratch: Path, *versions: str) -> Path | None:
    """Those of Kafka's Java clients, of the first version that can be had."""
    named = os.environ.get("KAFKA_JARS")
    if shutil.which("java") is None or shutil.which("javac") is None:
        return None
    if named is not None:
        return Path(named) if any(list(Path(named).glob(f"kafka-clients-{one}.jar")) for one in versions) else None
    return next((jars for one in versions if (jars := kafka_jars(scratch, ("kafka-clients",), one)) is not None), None)


def java_program(scratch: Path, program: Path, *versions: str) -> str | None:
    """A class path with the compiled program and Kafka's clients; None if they cannot be had."""
    scratch = scratch.resolve()  # Maven works elsewhere
    scratch.mkdir(parents=True, exist_ok=True)
    jars = client_jars(scratch, *(versions or CLIENTS))
    if jars is None:
        return None
    command = ["javac", "-cp", f"{jars}/*", "-d", str(scratch / "classes"), str(program)]
    subprocess.run(command, check=True, timeout=300)
    return f"{scratch / 'classes'}:{jars}/*"
