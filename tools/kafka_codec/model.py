"""The message definitions as plain values, read from `definitions/`: one file an API."""

from __future__ import annotations

import json
import keyword
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

APIS = [
    "Produce",
    "Fetch",
    "ListOffsets",
    "Metadata",
    "OffsetCommit",
    "OffsetFetch",
    "FindCoordinator",
    "JoinGroup",
    "Heartbeat",
    "LeaveGroup",
    "SyncGroup",
    "DescribeGroups",
    "ListGroups",
    "SaslHandshake",
    "ApiVersions",
    "CreateTopics",
    "DeleteTopics",
    "DeleteRecords",
    "InitProducerId",
    "OffsetForLeaderEpoch",
    "AddPartitionsToTxn",
    "AddOffsetsToTxn",
    "EndTxn",
    "WriteTxnMarkers",
    "TxnOffsetCommit",
    "DescribeAcls",
    "CreateAcls",
    "DeleteAcls",
    "DescribeConfigs",
    "AlterConfigs",
    "DescribeLogDirs",
    "SaslAuthenticate",
    "CreatePartitions",
    "DeleteGroups",
    "IncrementalAlterConfigs",
    "OffsetDelete",
    "DescribeClientQuotas",
    "AlterClientQuotas",
    "DescribeCluster",
    "DescribeProducers",
    "DescribeTransactions",
    "ListTransactions",
    "ConsumerGroupHeartbeat",
    "ConsumerGroupDescribe",
    "ListConfigResources",
    "DescribeTopicPartitions",
    "ShareGroupHeartbeat",
    "ShareGroupDescribe",
    "ShareFetch",
    "ShareAcknowledge",
    "DescribeShareGroupOffsets",
    "AlterShareGroupOffsets",
    "DeleteShareGroupOffsets",
    "AlterPartitionReassignments",
    "ListPartitionReassignments",
    "DescribeUserScramCredentials",
    "AlterUserScramCredentials",
    "ElectLeaders",
]
# Those `goqueue.pipeline` asks of a node: the client's side of their messages is generated too.
CLIENT_APIS = [
    "Produce",
    "Fetch",
    "ListOffsets",
    "Metadata",
    "OffsetCommit",
    "FindCoordinator",
    "ApiVersions",
    "AddPartitionsToTxn",
    "DescribeConfigs",
    "SaslHandshake",
    "SaslAuthenticate",
]
NEVER = 32767
DEFINITIONS = Path(__file__).parent / "definitions"

# Each fixed type: its letter in `struct` and its bytes.
FIXED = {
    "bool": ("?", 1),
    "int8": ("b", 1),
    "int16": ("h", 2),
    "uint16": ("H", 2),
    "int32": ("i", 4),
    "uint32": ("I", 4),
    "int64": ("q", 8),
    "float64": ("d", 8),
    "uuid": ("16s", 16),
}


@dataclass(frozen=True)
class Versions:
    first: int
    last: int

    def __contains__(self, version: int) -> bool:
        return self.first <= version <= self.last

    @property
    def empty(self) -> bool:
        return self.first > self.last


@dataclass(frozen=True)
class Field:
    name: str
    type: str  # the element's type when `array`
    array: bool
    versions: Versions
    nullable: Versions
    tag: int | None
    tagged: Versions
    default: Any

    @property
    def fixed(self) -> tuple[str, int] | None:
        return FIXED.get(self.type)

    @property
    def is_struct(self) -> bool:
        return self.type[0].isupper()


@dataclass(frozen=True)
class Struct:
    name: str
    fields: tuple[Field, ...]


@dataclass(frozen=True)
class Message:
    key: int
    name: str
    versions: Versions
    flexible: Versions
    structs: dict[str, Struct]  # children before parents; the message itself is last

    @property
    def root(self) -> Struct:
        return self.structs[self.name]


def snake(name: str) -> str:
    word = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()
    return word + "_" if keyword.iskeyword(word) else word


def load(name: str) -> Message:
    """A request or a response, such as `ProduceRequest`."""
    api, kind = name.removesuffix("Request").removesuffix("Response"), name.endswith("Request")
    source = json.loads((DEFINITIONS / f"{snake(api)}.json").read_text())
    structs = source["request" if kind else "response"]
    return Message(
        source["key"],
        name,
        versions(source["versions"]),
        versions(source.get("flexible")),
        {each: Struct(each, tuple(map(_field, fields))) for each, fields in structs.items()},
    )


def _field(source: dict[str, Any]) -> Field:
    array, kind = source["type"].startswith("[]"), source["type"].removeprefix("[]")
    return Field(
        name=source["name"],
        type=kind,
        array=array,
        versions=versions(source["versions"]),
        nullable=versions(source.get("nullable")),
        tag=source.get("tag"),
        tagged=versions(source.get("tagged")),
        default=source["default"] if "default" in source else usual_default(kind, array),
    )


def usual_default(kind: str, array: bool) -> Any:
    """Of a field whose definition names none; a struct that is not nullable has none, its class is called instead."""
    if array:
        return ()
    usual = {"bytes": b"", "records": b"", "uuid": bytes(16), "string": "", "bool": False, "float64": 0.0}
    return None if kind[0].isupper() else usual.get(kind, 0)


def versions(text: str | None) -> Versions:
    """Of `3`, `3-5`, `3+`, or of no version."""
    if text is None:
        return Versions(1, 0)
    first, _, last = text.removesuffix("+").partition("-")
    return Versions(int(first), NEVER if text.endswith("+") else int(last or first))
