"""Which Python Spark starts its workers with: it has to be one that has this package."""

from __future__ import annotations

import os
import sys
from collections.abc import MutableMapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from goqueue.pipeline.link.errors import PipelineError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_ANSWER_SECONDS: Final = 60.0


class WrongPython(PipelineError):
    """Spark's workers run a Python that cannot find the format."""

    def __init__(self, program: str) -> None:
        super().__init__(
            f"Spark starts its workers with {program}, which has no goqueue. Set PYSPARK_PYTHON={sys.executable} "
            "before the session is made, or make it with goqueue.pipeline.session.session()."
        )


def put_own_python_first(environ: MutableMapping[str, str] = os.environ) -> None:
    """Lets `python3` mean this Python for a session that is made from now on.

    Spark takes the first `python3` on the path unless PYSPARK_PYTHON names another. Executors elsewhere have a path of
    their own and are not touched.
    """
    here = str(Path(sys.executable).parent)
    path = environ.get("PATH", "")
    if path.split(os.pathsep)[0] != here:
        environ["PATH"] = os.pathsep.join(part for part in (here, path) if part)


def check_python(spark: SparkSession) -> None:
    """`WrongPython` if the session's workers on this machine cannot load the format."""
    import subprocess

    program = spark.sparkContext.pythonExec
    if program == sys.executable:
        return
    machine = spark.sparkContext._jvm
    path = machine.System.getenv("PATH") if machine is not None else os.environ.get("PATH", "")
    command = [program, "-c", "import pyspark_goqueue"]
    try:
        done = subprocess.run(
            command, env={**os.environ, "PATH": path}, capture_output=True, timeout=_ANSWER_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        raise WrongPython(program) from None
    if done.returncode:
        raise WrongPython(program)
