"""Where a request goes in a cluster: to the leader of the partition, or to who keeps the group or transaction.

What a client's library does behind one's back, for tests that speak by hand. A request that names partitions of several
leaders goes to one of them, as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from goqueue.wire.messages import find_coordinator, metadata

Ask = Callable[[object, int], Any]
GROUP, TRANSACTION = 0, 1
NO_ID: Final = bytes(16)
BY_PARTITION: Final = frozenset(
    {
        "Produce",
        "Fetch",
        "ListOffsets",
        "OffsetForLeaderEpoch",
        "DeleteRecords",
        "DescribeProducers",
        "WriteTxnMarkers",
        "ShareFetch",
        "ShareAcknowledge",
    }
)
BY_GROUP: Final = frozenset(
    {
        "JoinGroup",
        "SyncGroup",
        "Heartbeat",
        "LeaveGroup",
        "OffsetCommit",
        "OffsetFetch",
        "OffsetDelete",
        "TxnOffsetCommit",
        "DescribeGroups",
        "DeleteGroups",
        "ConsumerGroupHeartbeat",
        "ConsumerGroupDescribe",
        "ShareGroupHeartbeat",
        "ShareGroupDescribe",
        "DescribeShareGroupOffsets",
        "AlterShareGroupOffsets",
        "DeleteShareGroupOffsets",
    }
)
BY_TRANSACTION: Final = frozenset(
    {"InitProducerId", "AddPartitionsToTxn", "AddOffsetsToTxn", "EndTxn", "DescribeTransactions"}
)


def place_of(name: str, request: Any, ask: Ask) -> str | None:
    """An address; None where any node will do, or nobody can be named."""
    if name in BY_PARTITION:
        return _leader(request, ask)
    if name in BY_GROUP and (group := next(_ids(request, "group"), None)) is not None:
        return _coordinator(GROUP, group, ask)
    if name in BY_TRANSACTION and (known := next(_ids(request, "transaction"), None)) is not None:
        return _coordinator(TRANSACTION, known, ask)
    return None


def _ids(request: Any, kind: str) -> Iterator[str]:
    """`group_id`, `groups`, `group_ids`, `transactional_id`, ... of a request or of its first element."""
    for field in request.__struct_fields__:
        if kind[:11] not in field and not (kind == "transaction" and "transactional" in field):
            continue
        value = getattr(request, field)
        if isinstance(value, str) and value:
            yield value
        elif isinstance(value, (list, tuple)) and value:
            yield from [value[0]] if isinstance(value[0], str) else _ids(value[0], kind)


def _coordinator(kind: int, key: str, ask: Ask) -> str | None:
    (found,) = ask(find_coordinator.FindCoordinatorRequest("", kind, [key]), 4).coordinators
    return f"{found.host}:{found.port}" if found.error_code == 0 else None


def _leader(request: Any, ask: Ask) -> str | None:
    for topic, number in _partitions(request):
        told = ask(metadata.MetadataRequest([topic], False), 12)
        nodes = {one.node_id: f"{one.host}:{one.port}" for one in told.brokers}
        for part in told.topics[0].partitions:
            if part.partition_index == number and part.leader_id in nodes:
                return nodes[part.leader_id]
    return None


def _partitions(request: Any) -> Iterator[tuple[metadata.MetadataRequestTopic, int]]:
    for topic in _topics(request):
        name = getattr(topic, "name", None) or getattr(topic, "topic", None)
        known = bytes(getattr(topic, "topic_id", NO_ID))
        asked = metadata.MetadataRequestTopic(NO_ID, name) if name else metadata.MetadataRequestTopic(known, None)
        for part in _first(topic, "partitions", "partition_data", "partition_indexes") or ():
            yield asked, part if isinstance(part, int) else _first(part, "index", "partition", "partition_index")


def _topics(request: Any) -> list[Any]:
    if hasattr(request, "markers"):
        return [topic for marker in request.markers for topic in marker.topics]
    return list(_first(request, "topic_data", "topics"))


def _first(of: Any, *names: str) -> Any:
    return next((getattr(of, name) for name in names if hasattr(of, name)), None)
