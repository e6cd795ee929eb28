"""`python -m tests.pipeline.definition.month_serve pipeline serve ...`: the command line where an hour is a minute.

In compressed time what Spark and Delta keep for long is kept for short: ten batches instead of a hundred, a minute of a
table's log instead of the hour that is kept at least.
"""

from __future__ import annotations

import os

from deltalake import DeltaTable

from goqueue.cli import main
from goqueue.pipeline.lake import either

LOG = {"delta.logRetentionDuration": "interval 60 seconds", "delta.enableExpiredLogCleanup": "true"}


def keep_a_minute(table: DeltaTable, retention_ms: int) -> None:
    table.update_incremental()
    if not LOG.items() <= table.metadata().configuration.items():
        table.alter.set_table_properties(LOG)
    table.create_checkpoint()
    table.cleanup_metadata()
    table.update_incremental()


if __name__ == "__main__":
    os.environ["PYSPARK_SUBMIT_ARGS"] = (
        "--driver-memory 1g --conf spark.sql.streaming.minBatchesToRetain=10 pyspark-shell"
    )
    vars(either)["keep_log"] = keep_a_minute
    main()
