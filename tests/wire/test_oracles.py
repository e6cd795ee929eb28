"""Two other implementations read what we write, agree on every value, and write the same bytes back."""

from __future__ import annotations

import dataclasses
import datetime
import io
from collections.abc import Callable
from enum import Enum
from typing import Any
from uuid import UUID

import kio.index
import kio.serial
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from goqueue.wire.shape import ClientApi
from tests.wire.client import APIS
from tests.wire.kafka_python import MESSAGES as KAFKA_PYTHON
from tests.wire.samples import CASES, DEFINITIONS, encoded, functions, sample, versions
from tools.kafka_codec.model import Field, Struct

SEEDS = st.integers(0, 2**32)
EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


def kio_schema(key: int, kind: str, version: int) -> Any:
    load = kio.index.load_request_schema if kind == "Request" else kio.index.load_response_schema
    return load(key, version)


@pytest.mark.parametrize(("key", "kind"), CASES)
@settings(max_examples=5, deadline=None)
@given(SEEDS)
def test_kafka_python_agrees(key: int, kind: str, seed: int) -> None:
    api = APIS[key]
    oracle = KAFKA_PYTHON.get(api.name + kind)
    if oracle is None:
        assert key in (68, 69) or "Share" in api.name, "kafka-python knows every other API"
        return
    for version in versions(api):
        message = sample(api, kind, version, seed)
        if (key, kind) == (18, "Response"):
            message = msgspec.structs.replace(message, error_code=0)  # with an error it reads version 0, always
        data = encoded(api, kind, version, message)
        theirs = oracle.decode(data, version=version)
        _same(api, kind, DEFINITIONS[key, kind].root, version, message, theirs, lambda each: list(each.fields))
        theirs._header = None  # its decoder leaves this unset and its encoder looks at it
        again = theirs.encode()
        assert functions(api, kind)[1](version, memoryview(again), 0) == message


@pytest.mark.parametrize(("key", "kind"), CASES)
@settings(max_examples=5, deadline=None)
@given(SEEDS)
def test_kio_agrees(key: int, kind: str, seed: int) -> None:
    api = APIS[key]
    for version in versions(api):
        schema = kio_schema(key, kind, version)
        message = sample(api, kind, version, seed, tame=True)
        data = encoded(api, kind, version, message)
        theirs, size = kio.serial.entity_reader(schema)(data, 0)
        assert size == len(data)
        _same(api, kind, DEFINITIONS[key, kind].root, version, message, theirs, None)
        again = io.BytesIO()
        kio.serial.entity_writer(schema)(again, theirs)
        assert functions(api, kind)[1](version, memoryview(again.getvalue()), 0) == message


@pytest.mark.parametrize(("key", "kind"), CASES)
def test_kio_knows_every_version(key: int, kind: str) -> None:
    for version in versions(APIS[key]):
        assert kio_schema(key, kind, version).__version__ == version


def _same(
    api: ClientApi,
    kind: str,
    struct: Struct,
    version: int,
    ours: Any,
    theirs: Any,
    names: Callable[[Any], list[str]] | None,
) -> None:
    """Field by field, in the order of the definition; kio's classes have only the fields of their version."""
    present = [field for field in struct.fields if version in field.versions]
    if names is None:
        their_names = [field.name for field in dataclasses.fields(theirs)]
    else:
        every = names(theirs)
        their_names = [name for name, field in zip(every, struct.fields, strict=True) if field in present]
    for field, name in zip(present, their_names, strict=True):
        mine, other = getattr(ours, field.name), getattr(theirs, name)
        if other is None and version not in field.nullable:
            assert mine == _default(field, mine)  # their word for an absent struct, or for the id of nothing
            continue
        if field.name.endswith("authorized_operations") and isinstance(other, set):
            assert mine & 0xFFFFFFFF == sum(1 << bit for bit in other)
            continue
        if not field.is_struct or mine is None:
            assert _plain(mine) == _plain(other), field.name
            continue
        inner = DEFINITIONS[api.key, kind].structs[field.type]
        for a, b in zip(mine, other, strict=True) if field.array else [(mine, other)]:
            _same(api, kind, inner, version, a, b, names)


def _default(field: Field, ours: Any) -> Any:
    return type(ours)() if field.is_struct else field.default


def _plain(value: Any) -> Any:
    match value:
        case list() | tuple():
            return [_plain(each) for each in value]
        case datetime.timedelta():
            return value // datetime.timedelta(milliseconds=1)
        case datetime.datetime():
            return (value - EPOCH) // datetime.timedelta(milliseconds=1)
        case UUID():
            return value.bytes
        case Enum():
            return value.value
        case memoryview() | bytearray():
            return bytes(value)
        case _:
            return value
