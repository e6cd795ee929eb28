"""The comparison with Spark writes the messages that all loads write, and finds what is lost, doubled or damaged."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from bench.compare import spark_load
from bench.compare.bodies import number_of
from bench.compare.model import CheckFailed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = 1_000


def test_what_spark_writes_are_the_messages_of_all_loads(spark: SparkSession) -> None:
    frame = spark_load._messages(spark, ROWS)
    assert [number_of(bytes(row["value"]), spark_load.SIZE) for row in frame.orderBy("key").collect()] == [*range(ROWS)]
    spark_load.check(frame, ROWS)


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
    spark_load._messages(spark, ROWS).createOrReplaceTempView("messages")
    with pytest.raises(CheckFailed, match=message):
        spark_load.check(spark.sql(cheat), ROWS)
