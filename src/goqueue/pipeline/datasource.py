"""`spark.read|readStream|write|writeStream.format("goqueue")`.

Spark loads this module in a new process for every step of planning, so each method imports what only it needs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from goqueue.pipeline.options import Options, Use, read_options, write_options
from goqueue.pipeline.source.catalog_tables import (
    of_side,
    options_for,
    options_of_create,
    with_options,
    without_options,
)
from goqueue.pipeline.source.fields import check_asked, columns_of, schema_of

if TYPE_CHECKING:
    from pyspark.sql.datasource import (
        DataSourceArrowWriter,
        DataSourceReader,
        DataSourceStreamArrowWriter,
        DataSourceStreamReader,
    )

    from goqueue.pipeline.source.rows import SourceReadOptions
    from goqueue.pipeline.source.typed import Typed


class GoQueueSource(DataSource):
    """Topics as tables without end. Spark finds it by its name, as the module `pyspark_goqueue` holds it."""

    _typed: Typed | None = None

    @classmethod
    def name(cls) -> str:
        return "goqueue"

    def schema(self) -> StructType:
        # Spark does not say here whether it will be a batch or a stream.
        of_table = options_of_create(self.options)
        if of_table is None:
            return self._schema(read_options(self.options))
        return with_options(self._schema(read_options(of_side(of_table, "read"))), of_table)

    def reader(self, schema: StructType) -> DataSourceReader:
        from goqueue.pipeline.source.readers import BatchReader, FilteringBatchReader

        options, reading = self._planned(schema, "batch")
        return (FilteringBatchReader if options.push_filters else BatchReader)(options, reading)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        from goqueue.pipeline.source.readers import StreamReader

        return StreamReader(*self._planned(schema, "stream"))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        from goqueue.pipeline.sink import batch_writer

        return batch_writer(write_options(options_for(schema, self.options, "write")), schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:  # noqa: N802
        from goqueue.pipeline.sink import stream_writer

        return stream_writer(write_options(options_for(schema, self.options, "write")), schema)

    def _planned(self, asked: StructType, use: Use) -> tuple[Options, SourceReadOptions]:
        from goqueue.pipeline.source.rows import SourceReadOptions

        options = read_options(options_for(asked, self.options, "read"), use)
        check_asked(without_options(asked), self._schema(options))
        return options, SourceReadOptions(
            columns_of(options),
            options.isolation,
            options.fail_on_loss,
            options.patience_ms / 1000,
            self._typed,
            options.keep_corrupt,
        )

    def _schema(self, options: Options) -> StructType:
        """Asks the registry once: Spark hands this object on with what it was told then."""
        columns = columns_of(options)
        if not options.typed:
            return schema_of(columns)
        from goqueue.pipeline.source.typed import type_of

        if self._typed is None:
            self._typed = _typed(options)
        return schema_of(columns, type_of(self._typed.schema), options.keep_corrupt)


def _typed(options: Options) -> Typed:
    from goqueue.pipeline.link.doors import doors
    from goqueue.pipeline.source.readers import cluster_of
    from goqueue.pipeline.source.typed import typed_values

    found = options.what.find(cluster_of(options))
    return typed_values(doors(options.kafka, options.url, options.first_answer_ms / 1000).url, sorted(found.ids))
