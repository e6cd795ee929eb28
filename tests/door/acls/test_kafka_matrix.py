"""Every API of Kafka's door, asked with no right, with too little and with just enough."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import msgspec
import pytest

from goqueue.wire.api import RequestHeader
from tests.door.acls.ruled import ALL, FREE, LISTED, Ruled, ruled_node, too_little
from tests.format.by_hand import plain
from tests.wire.client import APIS, encode_request_frame
from tools.kafka_codec.model import snake

READ_TOPIC, WRITE_TOPIC, SEE_TOPIC = "read topic:orders", "write topic:orders", "describe topic:orders"
READ_GROUP, SEE_GROUP, TXN = "read group:g", "describe group:g", "write transactional_id:txn"
CLUSTER, CHANGE = "describe cluster", "alter cluster"
ID = "ID"  # of the topic
DENIED = {29: "topic", 30: "group", 31: "cluster", 53: "transactional id"}
_ONE = [{"name": "orders", "partitions": [{"partition_index": 0}]}]
_WHO = {"transactional_id": "txn", "producer_id": 1, "producer_epoch": 0}
_MEMBER = {"group_id": "g", "member_id": "m"}
_SHARED = {**_MEMBER, "share_session_epoch": 1}
_FILTER = {"resource_type_filter": 1, "pattern_type_filter": 1, "operation": 1, "permission_type": 1}


class Case(NamedTuple):
    api: str
    needed: Sequence[str]
    body: dict[str, Any] = {}


def _config(kind: int, name: str, **more: Any) -> dict[str, Any]:
    return {"resources": [{"resource_type": kind, "resource_name": name, **more}]}


CASES = [
    Case(
        "Produce",
        [WRITE_TOPIC],
        {"acks": 1, "topic_data": [{"topic_id": ID, "partition_data": [{"index": 0, "records": "BATCH"}]}]},
    ),
    Case(
        "Produce",
        [WRITE_TOPIC, TXN],
        {
            "transactional_id": "txn",
            "acks": 1,
            "topic_data": [{"topic_id": ID, "partition_data": [{"index": 0, "records": "BATCH"}]}],
        },
    ),
    Case("Fetch", [READ_TOPIC], {"max_bytes": 10, "topics": [{"topic_id": ID, "partitions": [{"partition": 0}]}]}),
    Case("ListOffsets", [SEE_TOPIC], {"topics": [{"name": "orders", "partitions": [{"timestamp": -1}]}]}),
    Case("Metadata", [SEE_TOPIC], {"topics": [{"name": "orders"}]}),
    Case("Metadata", [SEE_TOPIC], {"topics": [{"name": None, "topic_id": ID}]}),
    Case(
        "Metadata",
        ["describe topic:fresh", "create topic:fresh"],
        {"allow_auto_topic_creation": True, "topics": [{"name": "fresh"}]},
    ),
    Case("Metadata", LISTED, {"topics": None}),
    Case(
        "OffsetCommit",
        [READ_GROUP, READ_TOPIC],
        {"group_id": "g", "topics": [{"topic_id": ID, "partitions": [{"partition_index": 0}]}]},
    ),
    Case(
        "OffsetFetch",
        [SEE_GROUP, SEE_TOPIC],
        {"groups": [{"group_id": "g", "topics": [{"topic_id": ID, "partition_indexes": [0]}]}]},
    ),
    Case("FindCoordinator", [SEE_GROUP], {"key_type": 0, "coordinator_keys": ["g"]}),
    Case("FindCoordinator", ["describe transactional_id:txn"], {"key_type": 1, "coordinator_keys": ["txn"]}),
    Case("FindCoordinator", [SEE_GROUP], {"key_type": 2, "coordinator_keys": ["g:AAAAAAAAAAAAAAAAAAAAAA:0"]}),
    Case("JoinGroup", [READ_GROUP], {**_MEMBER, "protocol_type": "consumer", "session_timeout_ms": 10_000}),
    Case("Heartbeat", [READ_GROUP], _MEMBER),
    Case("LeaveGroup", [READ_GROUP], {"group_id": "g", "members": [{"member_id": "m"}]}),
    Case("SyncGroup", [READ_GROUP], {**_MEMBER, "protocol_type": "consumer", "protocol_name": "range"}),
    Case("DescribeGroups", [SEE_GROUP], {"groups": ["g"]}),
    Case("ListGroups", LISTED),
    Case("SaslHandshake", FREE, {"mechanism": "PLAIN"}),
    Case("SaslAuthenticate", FREE),
    Case("ApiVersions", FREE, {"client_software_name": "a", "client_software_version": "1"}),
    Case(
        "CreateTopics",
        ["create topic:fresh2"],
        {"topics": [{"name": "fresh2", "num_partitions": 1, "replication_factor": 1}]},
    ),
    Case("DeleteTopics", ["delete topic:gone"], {"topics": [{"name": "gone"}]}),
    Case("DeleteRecords", ["delete topic:orders"], {"topics": _ONE}),
    Case("InitProducerId", [TXN], {"transactional_id": "txn", "transaction_timeout_ms": 1000}),
    Case("InitProducerId", ["idempotent_write cluster"], {"transactional_id": None}),
    Case("OffsetForLeaderEpoch", [SEE_TOPIC], {"topics": [{"topic": "orders", "partitions": [{"partition": 0}]}]}),
    Case(
        "AddPartitionsToTxn",
        [TXN, WRITE_TOPIC],
        {"transactions": [{**_WHO, "topics": [{"name": "orders", "partitions": [0]}]}]},
    ),
    Case("AddOffsetsToTxn", [TXN, READ_GROUP], {**_WHO, "group_id": "g"}),
    Case("EndTxn", [TXN], _WHO),
    Case(
        "WriteTxnMarkers",
        ["cluster_action cluster"],
        {"markers": [{"producer_id": 1, "topics": [{"name": "orders", "partition_indexes": [0]}]}]},
    ),
    Case("TxnOffsetCommit", [TXN, READ_GROUP, READ_TOPIC], {**_WHO, "group_id": "g", "topics": _ONE}),
    Case("DescribeAcls", [CLUSTER], _FILTER),
    Case(
        "CreateAcls",
        [CHANGE],
        {
            "creations": [
                {
                    "resource_type": 2,
                    "resource_name": "x",
                    "principal": "User:x",
                    "host": "*",
                    "operation": 3,
                    "permission_type": 3,
                }
            ]
        },
    ),
    Case("DeleteAcls", [CHANGE], {"filters": [{**_FILTER, "resource_name_filter": "nothing"}]}),
    Case("DescribeConfigs", ["describe_configs topic:orders"], _config(2, "orders")),
    Case("DescribeConfigs", ["describe_configs cluster"], _config(4, "1")),
    Case("DescribeConfigs", ["describe_configs cluster"], _config(8, "1")),
    Case("DescribeConfigs", ["describe_configs group:g"], _config(32, "g")),
    Case("AlterConfigs", ["alter_configs topic:orders"], _config(2, "orders")),
    Case("AlterConfigs", ["alter_configs cluster"], _config(4, "1")),
    Case(
        "IncrementalAlterConfigs",
        ["alter_configs topic:orders"],
        _config(2, "orders", configs=[{"name": "retention.ms", "value": "7000000"}]),
    ),
    Case("IncrementalAlterConfigs", ["alter_configs cluster"], _config(8, "1")),
    Case(
        "IncrementalAlterConfigs",
        ["alter_configs group:g"],
        _config(32, "g", configs=[{"name": "consumer.session.timeout.ms", "value": "50000"}]),
    ),
    Case("DescribeLogDirs", [CLUSTER], {"topics": None}),
    Case("CreatePartitions", ["alter topic:orders"], {"topics": [{"name": "orders", "count": 9, "assignments": None}]}),
    Case("OffsetDelete", ["delete group:g", READ_TOPIC], {"group_id": "g", "topics": _ONE}),
    Case("DescribeClientQuotas", ["describe_configs cluster"]),
    Case(
        "AlterClientQuotas",
        ["alter_configs cluster"],
        {
            "validate_only": True,
            "entries": [{"entity": [{"entity_type": "user", "entity_name": "x"}], "ops": []}],
        },
    ),
    Case("DescribeCluster", FREE),
    Case("DescribeProducers", [READ_TOPIC], {"topics": [{"name": "orders", "partition_indexes": [0]}]}),
    Case("DescribeTransactions", ["describe transactional_id:txn"], {"transactional_ids": ["txn"]}),
    Case("ListTransactions", LISTED),
    Case(
        "ConsumerGroupHeartbeat",
        [READ_GROUP, SEE_TOPIC],
        {**_MEMBER, "rebalance_timeout_ms": 9000, "subscribed_topic_names": ["orders"], "topic_partitions": []},
    ),
    Case("ConsumerGroupDescribe", [SEE_GROUP], {"group_ids": ["g"]}),
    Case("ListConfigResources", LISTED),
    Case("DescribeTopicPartitions", [SEE_TOPIC], {"topics": [{"name": "orders"}], "response_partition_limit": 9}),
    Case("DescribeTopicPartitions", LISTED, {"response_partition_limit": 9}),
    Case("ShareGroupHeartbeat", [READ_GROUP, SEE_TOPIC], {**_MEMBER, "subscribed_topic_names": ["orders"]}),
    Case("ShareGroupDescribe", [SEE_GROUP], {"group_ids": ["g"]}),
    Case("ShareFetch", [READ_GROUP], {**_SHARED, "share_session_epoch": 0}),
    Case("ShareAcknowledge", FREE, _SHARED),  # without a session, which takes the right to read, there is nothing
    Case("DescribeShareGroupOffsets", [SEE_GROUP], {"groups": [{"group_id": "g", "topics": None}]}),
    Case(
        "DescribeShareGroupOffsets",
        [SEE_GROUP, SEE_TOPIC],
        {"groups": [{"group_id": "g", "topics": [{"topic_name": "orders", "partitions": [0]}]}]},
    ),
    Case(
        "AlterShareGroupOffsets",
        [READ_GROUP],
        {"group_id": "g", "topics": [{"topic_name": "orders", "partitions": [{"partition_index": 0}]}]},
    ),
    Case("DeleteShareGroupOffsets", ["delete group:g"], {"group_id": "g", "topics": [{"topic_name": "orders"}]}),
    Case("DeleteGroups", ["delete group:g"], {"groups_names": ["g"]}),
    Case(
        "AlterPartitionReassignments",
        [SEE_TOPIC, CHANGE],
        {"topics": [{"name": "orders", "partitions": [{"partition_index": 0, "replicas": [0]}]}]},
    ),
    Case("ListPartitionReassignments", [CLUSTER]),
    Case("DescribeUserScramCredentials", [CLUSTER], {"users": []}),
    Case(
        "AlterUserScramCredentials",
        [CHANGE],
        {
            "upsertions": [
                {"name": "u", "mechanism": 1, "iterations": 4096, "salt": b"salt", "salted_password": b"p" * 32}
            ]
        },
    ),
    Case("ElectLeaders", [SEE_TOPIC, CHANGE], {"topic_partitions": [{"topic": "orders", "partitions": [0]}]}),
]
# Asked about topics once the group is known to be a share group without members, which it is not.
PARTLY = {"DescribeShareGroupOffsets", "AlterShareGroupOffsets", "DeleteShareGroupOffsets"}


class Line:
    """One connection to Kafka's door."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, topic_id: bytes) -> None:
        self._reader = reader
        self._writer = writer
        self._filled = {ID: topic_id, "BATCH": plain(b"v")}

    async def ask(self, name: str, body: dict[str, Any]) -> Any:
        api = next(one for one in APIS.values() if one.name == name)
        module = import_module(f"goqueue.wire.messages.{snake(name)}")
        request = made(vars(module), getattr(module, f"{name}Request"), self._fill(body))
        version = min(api.max_version, 5) if name == "InitProducerId" else api.max_version
        self._writer.writelines(map(bytes, encode_request_frame(api, RequestHeader(api.key, version, 1, "c"), request)))
        size = int.from_bytes(await self._reader.readexactly(4), "big")
        frame = await self._reader.readexactly(size)
        at = 5 if version >= api.flexible_from and name != "ApiVersions" else 4
        return api.decode_response(version, memoryview(frame), at)

    def _fill(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {key: self._fill(one) for key, one in value.items()}
        if isinstance(value, list):
            return [self._fill(one) for one in value]
        return self._filled.get(value, value) if isinstance(value, str) else value

    async def close(self) -> None:
        self._writer.close()
        await self._writer.wait_closed()


def made(names: dict[str, Any], kind: type, body: dict[str, Any]) -> Any:
    """A message of plain values."""
    fields = {field.name: str(field.type) for field in msgspec.structs.fields(kind)}

    def value(name: str, given: Any) -> Any:
        inner = [one for one in names.values() if inspect.isclass(one) and issubclass(one, msgspec.Struct)]
        wanted = next((one for one in inner if f".{one.__name__}]" in fields[name]), None)
        return [made(names, wanted, one) for one in given] if wanted and given is not None else given

    return kind(**{name: value(name, given) for name, given in body.items()})


def codes_in(value: Any) -> Iterator[int]:
    for field in msgspec.structs.fields(value):
        held = getattr(value, field.name)
        if field.name.endswith("error_code"):
            yield held
        if isinstance(held, msgspec.Struct):
            yield from codes_in(held)
        elif isinstance(held, Sequence) and not isinstance(held, str | bytes | memoryview):
            for one in held:
                if isinstance(one, msgspec.Struct):
                    yield from codes_in(one)


async def mistakes_in(line: Line, access: Ruled, case: Case) -> list[str]:
    async def is_refused(rights: Sequence[str]) -> bool:
        access.set(rights)
        return any(code in DENIED for code in codes_in(await line.ask(case.api, case.body)))

    if case.needed == FREE:
        return [f"{case.api} is refused"] if await is_refused([]) else []
    if case.needed == LISTED:
        access.set([])
        answer = await line.ask(case.api, case.body)
        shown = any(word in repr(answer) for word in ("'orders'", "'g'", "'txn'"))
        return [f"{case.api} shows {answer}"] if shown or any(codes_in(answer)) else []
    found = [
        f"{case.api} {case.body} with {rights} is not refused"
        for rights in [[], *([] if case.api in PARTLY else too_little(case.needed))]
        if not await is_refused(rights)
    ]
    if await is_refused(case.needed) and case.api not in PARTLY:
        found.append(f"{case.api} {case.body} with {case.needed} is refused")
    return found


async def topic_id(rest: str) -> bytes:
    async with httpx.AsyncClient(base_url=rest) as client:
        (await client.post("/topics", json={"name": "orders"})).raise_for_status()
        await client.post("/producers/init", json={"transactional_id": "txn"})
        await client.post("/groups/g/offsets", json={"offsets": [{"topic": "orders", "partition": 0, "offset": 0}]})
        return bytes.fromhex((await client.get("/topics/orders")).json()["id"].replace("-", ""))


@pytest.mark.asyncio
async def test_every_api_is_refused_without_its_right_and_answered_with_it(tmp_path: Path) -> None:
    assert {case.api for case in CASES} == {api.name for api in APIS.values()}, "an API without a rule"
    async with ruled_node(tmp_path) as (access, started):
        access.set(ALL)
        given = await topic_id(started.addresses["REST"])
        found: list[str] = []
        for case in CASES:
            host, _, port = started.addresses["Kafka"].rpartition(":")
            line = Line(*await asyncio.open_connection(host, int(port)), given)
            try:
                found += await mistakes_in(line, access, case)
            except asyncio.IncompleteReadError:
                found.append(f"{case.api} {case.body} ends the connection")
            await line.close()
        assert found == [], "\n".join(found)
