"""Streaming queries that have to end."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql.streaming import DataStreamWriter, StreamingQuery


def run_once(writer: DataStreamWriter, checkpoint: Path, deadline_s: float = 120.0) -> StreamingQuery:
    """Works off everything there is, and returns the query that did. What the query raised is raised here."""
    query = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
    return ended(query, deadline_s)


def ended(query: StreamingQuery, deadline_s: float = 120.0) -> StreamingQuery:
    """Waits for the end; a query that has none by then is stopped, and the test fails with its status."""
    try:
        is_over = query.awaitTermination(int(deadline_s))
        assert is_over, f"the query still runs after {deadline_s} s: {query.status}"
    finally:
        query.stop()
    return query


def forget_last_commit(checkpoint: Path) -> int:
    """As if the driver had died after the sink's commit and before Spark noted it; the batch that runs again."""
    commits = checkpoint / "commits"
    last = max(int(path.name) for path in commits.iterdir() if path.name.isdigit())
    (commits / str(last)).unlink()
    return last
