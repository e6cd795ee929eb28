"""The one way to a Spark session here."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

from goqueue.pipeline.own_python import check_python
from goqueue.pipeline.session.java import Java, find_java
from goqueue.pipeline.session.settings import local_cores, settings_for
from goqueue.pipeline.session.shipping import py_files
from goqueue.pipeline.session.spark_home import overlay
from goqueue.pipeline.session.worker_check import check_workers
from goqueue.pipeline.update_mode import allow_update_mode

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger("goqueue.pipeline.session")

DEFAULT_MASTER: Final = "local[*,4]"  # all cores, and a task whose worker dies is tried again, as on a cluster
_SUBMITTED: Final = "PYSPARK_GATEWAY_PORT"  # spark-submit started us, and a JVM before that
_EXECUTORS_PATH: Final = "spark.executorEnv.PYTHONPATH"
_LOOPBACK: Final = "127.0.0.1"


def session(
    app: str = "goqueue",
    master: str | None = None,
    *,
    ui: bool = False,
    settings: Mapping[str, str] | None = None,
    worker_modules: Sequence[str] = (),
) -> SparkSession:
    """A session in which `format("goqueue")` works; the running one, if there is one.

    `master` is Spark's, by default all cores of this machine, or what `spark-submit` was told. For one on other
    machines the code that executors need is shipped along. `settings` are Spark's and win over the ones made here.
    `worker_modules` are what the Python of such executors has to have beside pyarrow and pandas, like `deltalake` to
    write the lake's tables. Raises `JavaMissing` or `JavaTooOld` where Spark could not start, and `WrongPython` or
    `WorkersUnfit` if workers here or elsewhere cannot find the format.
    """
    if find_spec("pyspark") is None:
        raise ModuleNotFoundError("No module named 'pyspark'", name="pyspark")
    own = dict(settings or {})
    java = None if _SUBMITTED in os.environ else find_java()
    chosen = master or own.get("spark.master") or (None if java is None else DEFAULT_MASTER)
    pack = py_files() if chosen is None or local_cores(chosen) is None else None
    if pack is not None:
        own[_EXECUTORS_PATH] = _joined(pack.name, own.get(_EXECUTORS_PATH, ""))
    with _surroundings(java, is_local=pack is None):
        spark = _built(app, settings_for(chosen, ui, own, None if java is None else java.version))
    if pack is not None:
        spark.sparkContext.addPyFile(str(pack))
        check_workers(spark, worker_modules)
    elif _SUBMITTED not in os.environ:
        check_python(spark)  # it may be a running one that others made
    allow_update_mode()
    return spark


def _joined(*paths: str) -> str:
    return os.pathsep.join(path for path in paths if path)


def _built(app: str, settings: Mapping[str, str]) -> SparkSession:
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName(app)
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


@contextmanager
def _surroundings(java: Java | None, is_local: bool) -> Iterator[None]:
    """The environment that Spark's JVM starts in; ours is as before afterwards."""
    wanted = {} if java is None else launch_environment(os.environ, java, is_local)
    before = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name, value in before.items():
            _restore(name, value)


def _restore(name: str, value: str | None) -> None:
    if value is None:
        os.environ.pop(name, None)
    else:
        os.environ[name] = value


def launch_environment(given: Mapping[str, str], java: Java, is_local: bool) -> dict[str, str]:
    """What is set for the JVM on top of what is given."""
    wanted = {"JAVA_HOME": str(java.home)}
    if not is_local:
        # Executors run their own `python3`; in the driver's JVM the same name has to mean this one.
        return wanted | {"PATH": _joined(str(Path(sys.executable).parent), given.get("PATH", ""))}
    python = given.get("PYSPARK_PYTHON", sys.executable)
    if python == sys.executable and "SPARK_HOME" not in given:
        wanted |= _spark_home()
    # Nothing listens where others could reach it, and no host name has to resolve.
    return wanted | {"PYSPARK_PYTHON": python, "SPARK_LOCAL_IP": given.get("SPARK_LOCAL_IP", _LOOPBACK)}


def _spark_home() -> dict[str, str]:
    try:
        return {"SPARK_HOME": str(overlay())}
    except OSError as error:
        log.info("Spark starts its workers more slowly, as nothing can be kept for it: %s", error)
        return {}
