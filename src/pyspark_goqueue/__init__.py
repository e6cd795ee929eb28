"""How Spark finds the format `goqueue`: it looks into every module whose name begins with `pyspark_`.

A program with a session of its own imports this module before it makes the session: then Spark starts its workers with
the program's Python, and streams may be written in the mode `update`.
"""

from goqueue.pipeline.datasource import GoQueueSource as DefaultSource
from goqueue.pipeline.own_python import put_own_python_first
from goqueue.pipeline.update_mode import allow_update_mode

__all__ = ["DefaultSource"]

put_own_python_first()
allow_update_mode()
