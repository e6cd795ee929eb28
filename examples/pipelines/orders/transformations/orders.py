"""Orders as they come, and how much each customer spent."""

from __future__ import annotations

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

spark = SparkSession.active()


@dp.table
def orders() -> DataFrame:
    """Every order once; the next run goes on where this one stops."""
    source = spark.readStream.format("goqueue").option("url", spark.conf.get("spark.goqueue.url"))
    read = source.option("subscribe", "orders").option("startingOffsets", "earliest").load()
    return read.select(
        f.col("key").cast("string").alias("customer"),
        f.get_json_object(f.col("value").cast("string"), "$.total").cast("int").alias("total"),
        "timestamp",
    )


@dp.materialized_view
def spent() -> DataFrame:
    """Made anew with every run."""
    return spark.read.table("orders").groupBy("customer").agg(f.sum("total").alias("total"))
