"""Kafka's JSON message definitions as plain values."""

from __future__ import annotations

import json
import keyword
import re
from dataclasses import dataclass
from importlib.metadata import distribution
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
    "DescribeConfigs",
    "AlterConfigs",
    "DescribeLogDirs",
    "SaslAuthenticate",
    "CreatePartitions",
    "DeleteGroups",
    "IncrementalAlterConfigs",
    "OffsetDelete",
    "DescribeCluster",
    "DescribeProducers",
    "DescribeTransactions",
    "ListTransactions",
    "ConsumerGroupHeartbeat",
    "ConsumerGroupDescribe",
    "ListConfigResources",
    "DescribeTopicPartitions",
]
NEVER = 32767
RESOURCES = "kafka/protocol/schemas/resources/"

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
    source = json.loads(re.sub(r"^\s*//.*$", "", _text(name + ".json"), flags=re.MULTILINE))
    flexible = _versions(source["flexibleVersions"])
    structs: dict[str, Struct] = {}
    common = {each["name"]: each["fields"] for each in source.get("commonStructs", ())}
    _add(name, source["fields"], common, structs)
    return Message(source["apiKey"], name, _versions(source["validVersions"]), flexible, structs)


def _text(file: str) -> str:
    own = Path(__file__).parent / "definitions" / file
    if own.exists():
        return own.read_text()
    # Through the distribution, not the package: importing kafka-python loads its whole client.
    return Path(str(distribution("kafka-python").locate_file(RESOURCES + file))).read_text()


def _add(name: str, fields: list[dict[str, Any]], common: dict[str, Any], structs: dict[str, Struct]) -> None:
    made = []
    for each in fields:
        field = _field(each)
        made.append(field)
        if field.is_struct and field.type not in structs:
            _add(field.type, each.get("fields") or common[field.type], common, structs)
    struct = Struct(name, tuple(made))
    if structs.setdefault(name, struct) != struct:
        raise ValueError(f"two structs are named {name}")


def _field(source: dict[str, Any]) -> Field:
    array = source["type"].startswith("[]")
    if (array and source["type"][2:] == "uuid") or "flexibleVersions" in source:
        raise ValueError(f"{source['name']} needs something the generator does not know")
    field = Field(
        name=snake(source["name"]),
        type=source["type"].removeprefix("[]"),
        array=array,
        versions=_versions(source["versions"]),
        nullable=_versions(source.get("nullableVersions", "none")),
        tag=source.get("tag"),
        tagged=_versions(source.get("taggedVersions", "none")),
        default=None,
    )
    return Field(**{**field.__dict__, "default": _default(field, source.get("default"))})


def _default(field: Field, given: Any) -> Any:
    """The Python value; a struct that is not nullable has none, its class is called instead."""
    if given == "null":
        return None
    if field.array:
        return ()
    if field.type in ("bytes", "records"):
        return b""
    if field.type == "uuid":
        return bytes(16)
    if field.type == "string":
        return given or ""
    if field.type == "bool":
        return given in (True, "true")
    if field.type == "float64":
        return float(given or 0)
    return None if field.is_struct else int(str(given or 0), 0)


def _versions(text: str) -> Versions:
    if text == "none":
        return Versions(1, 0)
    first, _, last = text.removesuffix("+").partition("-")
    return Versions(int(first), NEVER if text.endswith("+") else int(last or first))
