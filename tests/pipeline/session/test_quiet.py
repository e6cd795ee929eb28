"""Commands say themselves what people should know."""

from __future__ import annotations

import logging

import pytest
from pyspark.errors import AnalysisException
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

from goqueue.pipeline.session.quiet import silence_mistakes

pytestmark = pytest.mark.xdist_group("spark")


def test_pyspark_logs_no_stack_of_a_mistake(spark: SparkSession) -> None:
    """A command says it in one line; PySpark would write the JVM's whole stack before it."""
    logger, logged = PySparkLogger.getLogger("SQLQueryContextLogger"), list[str]()
    before, handler = logger.level, logging.Handler()
    handler.emit = lambda record: logged.append(record.getMessage())  # type: ignore[method-assign]
    logger.addHandler(handler)
    try:
        silence_mistakes()
        with pytest.raises(AnalysisException):
            spark.sql("SELECT nothing")
        assert logged == []
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before)
