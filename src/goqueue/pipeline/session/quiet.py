"""What Spark and PySpark log by themselves, where a command says what people should know."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# They write each mistake in SQL with the whole stack of the JVM, as JSON.
_OF_MISTAKES: Final = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")


def quiet(spark: SparkSession, level: str = "OFF") -> None:
    """Logs of the JVM below the level are left out, and all that PySpark logs of mistakes."""
    spark.sparkContext.setLogLevel(level)
    silence_mistakes()


def silence_mistakes() -> None:
    from pyspark.logger import PySparkLogger

    for name in _OF_MISTAKES:
        PySparkLogger.getLogger(name).setLevel(logging.CRITICAL + 1)
