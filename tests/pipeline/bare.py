"""A Python as clusters have it: Spark and what Spark needs, and nothing of ours."""

from __future__ import annotations

import sys
from pathlib import Path

from goqueue.pipeline.session.spark_home import installed_spark

# What Spark itself asks of a cluster's Python for Arrow.
OF_SPARK = (
    "pyspark",
    "py4j",
    "pyarrow",
    "numpy",
    "numpy.libs",
    "pandas",
    "dateutil",
    "pytz",
    "six.py",
    "tzdata",
)


def bare_python(directory: Path) -> Path:
    """A directory with a `python3` in it that finds these and nothing else."""
    installed = installed_spark().parent
    library = directory / "library"
    library.mkdir()
    for name in OF_SPARK:
        if (installed / name).exists():
            (library / name).symlink_to(installed / name)
    program = directory / "bin" / "python3"
    program.parent.mkdir()
    base = getattr(sys, "_base_executable", sys.executable)
    program.write_text(f'#!/bin/sh\nPYTHONPATH="$PYTHONPATH:{library}" exec {base} -S "$@"\n')
    program.chmod(0o755)
    return program.parent
