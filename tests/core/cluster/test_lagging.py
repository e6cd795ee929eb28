"""Which of a node's shards keep it from being ready."""

from __future__ import annotations

import msgspec
import pytest

from goqueue.base.metadata import Commit
from goqueue.core.cluster.lagging import lagging_shards
from goqueue.core.cluster.records import SHARDS, ShardRecord, encode
from tests.core.cluster.test_image import Store


def lagging(record: ShardRecord) -> list[int]:
    """Of node 1, whose start is `now`."""
    store = Store()
    store.commit(Commit({f"{SHARDS}4": encode(record)}))
    return lagging_shards(store.image, 1, "now")


_WHOLE = ShardRecord(0, 3, (0, 1, 2), (0, 1, 2), (), {0: "a", 1: "now", 2: "b"})


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, []),
        ({"in_sync": (0, 2)}, [4]),
        ({"starts": {0: "a", 1: "before", 2: "b"}}, [4]),  # it was in sync, and started again since
        ({"replicas": (0, 2), "in_sync": (0,)}, []),  # not its shard
        ({"in_sync": (0, 2), "before": (0, 2), "target": (0, 1, 2)}, []),  # on its way to the node
        ({"in_sync": (0, 2), "before": (0, 1), "target": (0, 2)}, [4]),  # it still counts until the shard has left
    ],
)
def test_a_node_is_behind_where_this_start_of_it_is_not_in_sync(
    changes: dict[str, object], expected: list[int]
) -> None:
    assert lagging(msgspec.structs.replace(_WHOLE, **changes)) == expected
