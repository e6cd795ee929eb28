"""Well-formed requests with absurd content, for every method: each is refused or answered, and nothing breaks."""

from __future__ import annotations

import random
from typing import Any

import pytest
from google.protobuf.descriptor import Descriptor, FieldDescriptor

from bench.node_process import NodeProcess
from goqueue.wire import goqueue_pb2 as pb
from tests.door.grpc.stubs import Stubs
from tests.door.grpc.test_limits import METHODS, status_of
from tests.long import LONG

pytestmark = pytest.mark.timeout(600)
ROUNDS = 400 if LONG else 4
INPUTS = {
    f"/{service.full_name}/{method.name}": method.input_type
    for service in pb.DESCRIPTOR.services_by_name.values()
    for method in service.methods
}
TEXTS = ["", "t", "g", "..", "a/b", "\x00", "é" * 40, "x" * 300, "%2e%2e", "-1", "GET", "POST", "/topics", "/topics/t"]
NUMBERS = [0, 1, -1, 7, 2**31 - 1, -(2**31)]
LARGE = [*NUMBERS, 2**53, 2**63 - 1, -(2**63)]


def value_of(field: FieldDescriptor, chance: random.Random, depth: int) -> Any:
    kinds = FieldDescriptor
    if field.cpp_type == kinds.CPPTYPE_MESSAGE:
        return message_of(field.message_type, chance, depth + 1)
    if field.type == kinds.TYPE_BYTES:
        return chance.randbytes(chance.choice([0, 1, 70, 500]))
    if field.cpp_type == kinds.CPPTYPE_STRING:
        return chance.choice(TEXTS)
    if field.cpp_type == kinds.CPPTYPE_BOOL:
        return chance.random() < 0.5
    if field.cpp_type == kinds.CPPTYPE_ENUM:
        return chance.choice([0, 1, 2, 3, 99])
    if field.cpp_type in (kinds.CPPTYPE_UINT32, kinds.CPPTYPE_UINT64):
        return chance.choice([0, 1, 2**31])
    if field.cpp_type in (kinds.CPPTYPE_DOUBLE, kinds.CPPTYPE_FLOAT):
        return chance.choice([0.0, -1.0, 1e308, float("nan")])
    return chance.choice(NUMBERS if field.cpp_type == kinds.CPPTYPE_INT32 else LARGE)


def message_of(kind: Descriptor, chance: random.Random, depth: int = 0) -> Any:
    made = kind._concrete_class()
    for field in kind.fields:
        if depth > 3 or chance.random() < 0.35:
            continue
        if field.message_type and field.message_type.GetOptions().map_entry:
            _put(made, field, chance)
        elif field.is_repeated:
            getattr(made, field.name).extend([value_of(field, chance, depth) for _ in range(chance.randrange(4))])
        elif field.message_type:
            getattr(made, field.name).CopyFrom(value_of(field, chance, depth))
        else:
            setattr(made, field.name, value_of(field, chance, depth))
    return made


def _put(made: Any, field: FieldDescriptor, chance: random.Random) -> None:
    entry = field.message_type.fields_by_name
    if not entry["value"].message_type:
        getattr(made, field.name)[value_of(entry["key"], chance, 0)] = value_of(entry["value"], chance, 0)


@pytest.mark.parametrize(("path", "client", "server"), METHODS, ids=lambda one: str(one).rpartition("/")[2])
@pytest.mark.asyncio
async def test_absurd_requests_are_refused_in_order(
    grpc_node: NodeProcess, goqueue: Stubs, path: str, client: bool, server: bool
) -> None:
    chance = random.Random(path)
    for _ in range(ROUNDS):
        request = message_of(INPUTS[path], chance)
        found = await status_of(goqueue.channel, path, (client, server), request.SerializeToString(), seconds=0.3)
        assert found not in ("INTERNAL", "UNKNOWN"), (path, found, request)
    assert (await goqueue.topics.ListTopics(pb.ListTopicsRequest())) is not None
    assert "Traceback" not in grpc_node.stderr, grpc_node.stderr[-3000:]
