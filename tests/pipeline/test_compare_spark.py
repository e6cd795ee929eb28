"""The comparison with Spark writes the messages that all loads write, and finds what is lost, doubled or damaged."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark import StorageLevel

from bench.compare import spark_load
from bench.compare.bodies import number_of
from bench.compare.model import CheckFailed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.xdist_group("spark")
ROWS = 1_000


def test_what_spark_writes_are_the_messages_of_all_loads(spark: SparkSession) -> None:
    with spark_load.messages(spark, ROWS) as frame:
        numbers = [number_of(bytes(row["value"]), spark_load.SIZE) for row in frame.orderBy("key").collect()]
        assert numbers == [*range(ROWS)]
        spark_load.check(frame, ROWS)


def test_all_write_what_is_in_memory_in_as_many_partitions_and_give_the_memory_back(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Without a shuffle, which would be timed."""
    context, place = spark.sparkContext, tmp_path / "rows.parquet"
    with spark_load.messages(spark, ROWS) as frame:
        assert (frame.rdd.getNumPartitions(), frame.is_cached) == (spark_load.TRIGGERS, True)
        context.setJobGroup("write", "a write")
        spark_load.Parquet(place).write(frame)
        jobs = [context.statusTracker().getJobInfo(one) for one in context.statusTracker().getJobIdsForGroup("write")]
        context._jsc.sc().clearJobGroup()
    assert sum(len(job.stageIds) for job in jobs if job is not None) == 1
    assert len(list(place.glob("*.parquet"))) == spark_load.TRIGGERS
    assert frame.storageLevel == StorageLevel.NONE


@pytest.mark.parametrize(
    ("cheat", "message"),
    [
        (
            "select value from messages where cast(key as string) != '00000007'",
            "1000 messages were written, and 999 came",
        ),
        (
            "select value from messages where cast(key as string) != '00000999'",
            "1000 messages were written, and 999 came",
        ),
        (
            "select value from messages union all select value from messages where cast(key as string) = '00000007'",
            "1 messages came twice",
        ),
        (
            "select if(cast(key as string) = '00000007', key, value) as value from messages",
            "1 messages came back damaged",
        ),
        (
            "select if(cast(key as string) = '00000007', null, value) as value from messages",
            "1 messages came back damaged",
        ),
    ],
)
def test_what_is_lost_doubled_or_damaged_is_found(spark: SparkSession, cheat: str, message: str) -> None:
    with spark_load.messages(spark, ROWS) as frame:
        frame.createOrReplaceTempView("messages")
        with pytest.raises(CheckFailed, match=message):
            spark_load.check(spark.sql(cheat), ROWS)
