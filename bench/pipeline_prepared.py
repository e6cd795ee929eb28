"""A source for Spark that has its rows ready: it fetches and decodes nothing, and hands over the same batch again and
again. No source in Python can be read faster."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

NAME = "prepared"
PIECE_BYTES = 2 << 20  # as the connector hands over


def prepared_rows(spark: SparkSession, rows: int, size: int, partitions: int) -> DataFrame:
    """So many messages, with values of that size and all columns of a read."""
    spark.dataSource.register(_source(rows // partitions, size, partitions))
    return spark.read.format(NAME).load()


def _source(rows: int, size: int, partitions: int) -> type[DataSource]:
    """Classes of a function go to Spark's workers by value: these cannot import benchmarks."""

    def piece(count: int) -> pa.RecordBatch:
        from goqueue.pipeline.arrow.columns import BASE, arrow_schema

        columns = {
            "key": [b"key-%05d" % number for number in range(count)],
            "value": [b"%08d" % number + bytes(size - 8) for number in range(count)],
            "topic": ["rows"] * count,
            "partition": [0] * count,
            "offset": list(range(count)),
            "timestamp": list(range(count)),
            "timestampType": [0] * count,
        }
        return pa.RecordBatch.from_pydict(columns, schema=arrow_schema(BASE))

    class Reader(DataSourceReader):
        def partitions(self) -> list[InputPartition]:
            return [InputPartition(number) for number in range(partitions)]

        def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
            batch, left = piece(PIECE_BYTES // size), rows
            while left:
                part = batch.slice(0, left)
                yield part
                left -= part.num_rows

    class Source(DataSource):
        @classmethod
        def name(cls) -> str:
            return NAME

        def schema(self) -> str:
            numbers = "partition int, offset bigint, timestamp timestamp, timestampType int"
            return f"key binary, value binary, topic string, {numbers}"

        def reader(self, schema: object) -> DataSourceReader:
            return Reader()

    return Source
