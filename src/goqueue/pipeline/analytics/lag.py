"""How far groups are behind, sample by sample: a history that the broker itself does not keep."""

from __future__ import annotations

from collections.abc import Collection
from datetime import UTC, datetime
from typing import Final

import pyarrow as pa
from deltalake import write_deltalake

from goqueue.client import GoQueueClientError
from goqueue.client.replies import Group
from goqueue.pipeline.analytics.tables import place
from goqueue.pipeline.link.doors import doors
from goqueue.pipeline.link.errors import PipelineError
from goqueue.pipeline.link.identity import node_client
from goqueue.pipeline.running import Run

_SCHEMA: Final = pa.schema(
    [
        ("date", pa.date32()),
        ("time", pa.timestamp("us", "UTC")),
        ("group", pa.string()),
        ("state", pa.string()),
        ("members", pa.int32()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("committed", pa.int64()),
        ("end_offset", pa.int64()),
        ("lag", pa.int64()),
    ]
)


def sample(run: Run) -> tuple[int, str | None]:
    """Adds one sample of every group in the run's topics; how many rows, and why there are none where that failed."""
    if run.kafka is None and run.url is None:
        return 0, "No node was named, so the lag of groups was not sampled; give its address with --url."
    try:
        with node_client(doors(run.kafka, run.url).url) as client:
            groups = [client.group(one.group) for one in client.groups()]
    except (GoQueueClientError, PipelineError) as error:
        return 0, f"The lag of groups was not sampled: {error}"
    rows = lag_rows(groups, run.topics, datetime.now(UTC))
    if rows.num_rows:
        write_deltalake(place(run.lake, "lag"), rows, mode="append", partition_by=["date"])
    return rows.num_rows, None


def lag_rows(groups: Collection[Group], topics: Collection[str], now: datetime) -> pa.Table:
    """One row for each group and partition; of these topics, or of all."""
    rows = [
        {
            "date": now.date(),
            "time": now,
            "group": group.group,
            "state": group.state,
            "members": len(group.members),
            "topic": one.topic,
            "partition": one.partition,
            "committed": one.committed,
            "end_offset": one.end_offset,
            "lag": one.lag,
        }
        for group in groups
        for one in group.lag
        if not topics or one.topic in topics
    ]
    return pa.Table.from_pylist(rows, _SCHEMA)
