"""How Spark finds the format `goqueue`: it looks into every module whose name begins with `pyspark_`."""

from goqueue.pipeline.datasource import GoQueueSource as DefaultSource

__all__ = ["DefaultSource"]
