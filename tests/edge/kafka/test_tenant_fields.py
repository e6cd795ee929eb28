"""Every field of text in Kafka's messages is known to be a name, or not to be one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import get_args, get_type_hints

import msgspec

from goqueue.core.groups.consumer_protocol import (
    assigned_partitions,
    encode_assignment,
    renamed_assignment,
    renamed_subscription,
)
from goqueue.edge.kafka.tenants import changed_by
from goqueue.wire.messages import table
from tests.wire.client import APIS

# Text that names nothing that belongs to somebody.
PLAIN = {
    "assignor_name",
    "client_host",
    "client_id",
    "client_software_name",
    "client_software_version",
    "cluster_id",
    "committed_metadata",
    "configuration_keys",
    "documentation",
    "entity_name",  # users and clients: for operators
    "entity_type",
    "match",
    "user",
    "group_instance_id",
    "group_state",
    "group_type",
    "host",
    "host_filter",
    "instance_id",
    "leader",
    "log_dir",
    "mechanism",
    "mechanisms",
    "member_id",
    "metadata",
    "principal",
    "principal_filter",
    "protocol_data",
    "protocol_name",
    "protocol_type",
    "rack",
    "rack_id",
    "reason",
    "resource_name_filter",
    "server_assignor",
    "state_filters",
    "states_filter",
    "transaction_state",
    "types_filter",
    "unknown_state_filters",
}


def structs() -> Iterator[type]:
    for api in APIS.values():
        module = __import__(api.decode_request.__module__, fromlist=["*"])
        for one in vars(module).values():
            if isinstance(one, type) and issubclass(one, msgspec.Struct) and one.__module__ == module.__name__:
                yield one


def holds_text(hint: object) -> bool:
    return hint is str or any(holds_text(one) for one in get_args(hint))


def test_every_field_of_text_is_translated_or_known_to_be_no_name() -> None:
    assert len(APIS) == len(table.MESSAGES)
    fields = {(one, field, hint) for one in structs() for field, hint in get_type_hints(one).items()}
    unknown = [
        f"{one.__module__}.{one.__name__}.{field}"
        for one, field, hint in fields
        if holds_text(hint) and not changed_by(one, field, hint) and field not in PLAIN and field != "name"
    ]
    assert not unknown, "a field that may be a name: edge/kafka/tenants.py has to know it"


def test_bytes_of_classic_consumers_are_renamed_and_back() -> None:
    parts = encode_assignment({"orders": (0, 1), "b": (2,)}, 1)
    inside = renamed_assignment(parts, lambda name: "a~" + name)
    assert assigned_partitions(inside) == {"a~orders": (0, 1), "a~b": (2,)} or set(assigned_partitions(inside)) == {
        "a~orders",
        "a~b",
    }
    assert renamed_assignment(inside, lambda name: name.removeprefix("a~")) == parts
    for data in (b"", b"\0", b"\0\1\0\0", b"\0\1\xff\xff\xff\xff", b"\0\1\0\0\0\1\0\x09short"):
        assert renamed_subscription(data, str.upper) == data
