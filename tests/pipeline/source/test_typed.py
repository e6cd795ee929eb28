from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest

from goqueue.pipeline.source import typed as module
from goqueue.pipeline.source.errors import Untyped
from goqueue.pipeline.source.registry import Registered
from goqueue.pipeline.source.typed import Decoder, Typed, type_of, typed_values

_JSON = Registered(1, "JSON", json.dumps({"type": "object", "properties": {"a": {"type": "integer"}}}))
_V1 = Registered(7, "AVRO", '{"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}]}')
_V2 = Registered(
    8,
    "AVRO",
    '{"type": "record", "name": "R", "fields": [{"name": "a", "type": "long"},'
    ' {"name": "b", "type": "string", "default": "-"}]}',
)


class _Registry:
    def __init__(self, *known: Registered, **topics: Registered) -> None:
        self.known = {one.id: one for one in known}
        self.topics = topics
        self.asked = 0

    def by_id(self, number: int) -> Registered | None:
        self.asked += 1
        return self.known.get(number)

    def latest(self, topic: str) -> Registered:
        return self.topics[topic]

    def framing(self, topic: str) -> str:
        return "none"


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> _Registry:
    fake = _Registry(_V1, _V2, one=_V2, two=_V2, other=_V1)
    monkeypatch.setattr(module, "registry", lambda url: fake)
    return fake


def _column(
    schema: Registered, framing: str, values: Sequence[bytes | None], ids: Sequence[int | None] | None = None
) -> Any:
    decoder = Decoder(Typed("http://n", schema, {"t": framing}))
    column, misfits = decoder.column(pa.array(values, pa.binary()), None if ids is None else pa.array(ids, pa.int32()))
    return column.to_pylist(), sorted(misfits)


def test_json_with_and_without_a_frame(registry: _Registry) -> None:
    values = [b'{"a": 1}', b'\0\0\0\0\1{"a": 2}', None, b"", b"{", b'{"a": "x"}', b'{"a": 9223372036854775808}']
    assert _column(_JSON, "none", values) == ([{"a": 1}, {"a": 2}, None, None, None, None, None], [3, 4, 5, 6])


def test_avro_is_read_with_the_version_that_the_frame_names(registry: _Registry) -> None:
    values = [b"\0\0\0\0\x07\x04", b"\0\0\0\0\x08\x06\x02x", b"\0\0\0\0\x63\x04", b"\x04"]
    found = [{"a": 2, "b": "-"}, {"a": 3, "b": "x"}, None, None]
    assert _column(_V2, "prefix", values) == (found, [2, 3])


def test_avro_is_read_with_the_version_that_the_header_names(registry: _Registry) -> None:
    assert _column(_V2, "header", [b"\x04", b"\x06\x02x"], [7, 8]) == ([{"a": 2, "b": "-"}, {"a": 3, "b": "x"}], [])


def test_avro_without_a_rule_is_read_as_it_looks(registry: _Registry) -> None:
    framed, told, bare = b"\0\0\0\0\x07\x04", b"\x04", b"\x06\x02x"
    assert _column(_V2, "none", [framed, told, bare], [7, 7, None]) == (
        [{"a": 2, "b": "-"}, {"a": 2, "b": "-"}, {"a": 3, "b": "x"}],
        [],
    )


def test_bare_avro_that_looks_framed_is_read_and_the_registry_is_not_asked_without_end(registry: _Registry) -> None:
    values = [b"\0\x08" + b"%04d" % number for number in range(1_000)]
    ids: list[int | None] = [int.from_bytes(value[1:5], "big") for value in values]
    found, misfits = _column(_V2, "none", list(values), ids)
    assert not misfits
    assert found[17] == {"a": 0, "b": "0017"}
    assert registry.asked <= 100


def test_a_value_of_another_age_is_a_misfit(registry: _Registry) -> None:
    millis = {"type": "long", "logicalType": "timestamp-millis"}
    text = json.dumps({"type": "record", "name": "T", "fields": [{"name": "at", "type": millis}]})
    farthest = b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01"
    assert _column(Registered(1, "AVRO", text), "latest", [farthest]) == ([None], [0])


def test_topics_of_one_type_can_be_read_together(registry: _Registry) -> None:
    assert typed_values("http://n", ["one", "two"]).schema == _V2
    with pytest.raises(Untyped, match="'one' and 'other' have values of different types"):
        typed_values("http://n", ["one", "other"])
    with pytest.raises(Untyped, match="No topic matches"):
        typed_values("http://n", [])


def test_other_kinds_have_no_typed_columns() -> None:
    with pytest.raises(Untyped, match="kind THRIFT"):
        type_of(Registered(1, "THRIFT", ""))
