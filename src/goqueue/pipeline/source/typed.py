"""Values as typed columns: bytes in, structs out, by the schema that is registered for the topic.

The type is that of the latest version when the query starts. Data of other versions is read as that one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec
import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import DataType

from goqueue.core.schemas.framing import PREFIX_BYTES, prefix_id
from goqueue.pipeline.source.avro_data import avro_reader
from goqueue.pipeline.source.avro_types import avro_type, parse_avro
from goqueue.pipeline.source.errors import Misfit, Untyped
from goqueue.pipeline.source.json_types import json_type
from goqueue.pipeline.source.json_values import json_shape
from goqueue.pipeline.source.proto_values import proto_descriptor, proto_reader, proto_start, proto_type
from goqueue.pipeline.source.registry import Registered, RegistryClient, registry

Decode = Callable[[bytes, int | None], Any]
ReadAvro = Callable[[bytes, int], Any]

_UNKNOWN_MAX: Final = 100
_BAD: Final = (Misfit, Untyped, ValueError, OverflowError, RecursionError)


class Typed(msgspec.Struct, frozen=True):
    """How the values of a query become columns. Passes between processes; `url` leads to the registry."""

    url: str
    schema: Registered
    framings: dict[str, str]  # by topic

    @property
    def needs_ids(self) -> bool:
        """Whether headers may say which version a message was written with."""
        return self.schema.kind == "AVRO" and bool({"header", "none"} & set(self.framings.values()))


def typed_values(url: str, topics: Sequence[str]) -> Typed:
    """For topics whose values have one type; `Untyped` says why they have none."""
    if not topics:
        raise Untyped("No topic matches, so there is no schema to take types from. Create the topics first.")
    source = registry(url)
    schemas = {topic: source.latest(topic) for topic in topics}
    first, *others = topics
    for other in others:
        if type_of(schemas[other]) != type_of(schemas[first]):
            raise Untyped(f"{first!r} and {other!r} have values of different types; read them one by one.")
    return Typed(url, schemas[first], {topic: source.framing(topic) for topic in topics})


def type_of(schema: Registered) -> DataType:
    """The type of the column `value`."""
    if schema.kind == "JSON":
        return json_type(schema.text, schema.named)
    if schema.kind == "AVRO":
        return avro_type(parse_avro(schema.text, schema.named))
    if schema.kind == "PROTOBUF":
        return proto_type(proto_descriptor(schema.text, schema.named))
    raise Untyped(f"Schemas of the kind {schema.kind} have no typed columns; read bytes instead.")


def decoder_of(typed: Typed) -> Decode:
    """How one value is read, given the schema's id from the message's headers if there is one."""
    if typed.schema.kind == "AVRO":
        return _AvroDecoder(typed, registry(typed.url))
    return _json_decoder(typed) if typed.schema.kind == "JSON" else _proto_decoder(typed)


class Decoder:
    """Turns a column of bytes into one of typed values."""

    def __init__(self, typed: Typed) -> None:
        self._typed = typed
        self._type = to_arrow_type(type_of(typed.schema), timezone="UTC")
        self._decode = decoder_of(typed)

    def column(self, values: pa.Array, ids: pa.Array | None) -> tuple[pa.Array, dict[int, str]]:
        """The typed values, and why the ones at some rows are null: they do not fit."""
        found: list[Any] = []
        misfits: dict[int, str] = {}
        numbers = ids.to_pylist() if ids is not None else [None] * len(values)
        for row, (data, number) in enumerate(zip(values.to_pylist(), numbers, strict=True)):
            try:
                found.append(None if data is None else self._decode(data, number))
            except _BAD as error:
                found.append(None)
                misfits[row] = str(error)
        return self._array(found, misfits), misfits

    def _array(self, found: list[Any], misfits: dict[int, str]) -> pa.Array:
        try:
            return pa.array(found, self._type)
        except (pa.ArrowException, ValueError, OverflowError):
            return pa.array([self._alone(row, value, misfits) for row, value in enumerate(found)], self._type)

    def _alone(self, row: int, value: Any, misfits: dict[int, str]) -> Any:
        """Rarely, a value has the right shape and no place in a column, like a time in another age."""
        try:
            pa.array([value], self._type)
        except (pa.ArrowException, ValueError, OverflowError) as error:
            misfits[row] = str(error)
            return None
        return value


def _json_decoder(typed: Typed) -> Decode:
    shape = json_shape(type_of(typed.schema))
    decode = msgspec.json.Decoder().decode

    def value(data: bytes, number: int | None) -> Any:
        # No JSON begins with a zero byte, so whoever framed it is known.
        return shape(decode(data[PREFIX_BYTES:] if data[:1] == b"\0" else data))

    return value


def _proto_decoder(typed: Typed) -> Decode:
    read = proto_reader(proto_descriptor(typed.schema.text, typed.schema.named))

    def value(data: bytes, number: int | None) -> Any:
        # No message begins with a zero byte either: there is no field 0.
        return read(data, proto_start(data, PREFIX_BYTES) if data[:1] == b"\0" else 0)

    return value


class _AvroDecoder:
    """Finds the version each value was written with; bare values are of the latest."""

    def __init__(self, typed: Typed, source: RegistryClient) -> None:
        framings = set(typed.framings.values())
        self._registry = source
        self._framing = framings.pop() if len(framings) == 1 else "none"
        self._reader = parse_avro(typed.schema.text, typed.schema.named)
        self._latest = avro_reader(self._reader, self._reader)
        self._by_id: dict[int, ReadAvro] = {typed.schema.id: self._latest}
        self._unknown: set[int] = set()

    def __call__(self, data: bytes, number: int | None) -> Any:
        framed = prefix_id(data)
        if self._framing == "prefix":
            return self._framed(framed)(data, PREFIX_BYTES)
        read = None if self._framing == "latest" or number is None else self._version(number)
        if read is None:
            return self._latest(data, 0)
        return read(data, PREFIX_BYTES if self._framing == "none" and number == framed else 0)

    def _framed(self, number: int | None) -> ReadAvro:
        read = None if number is None else self._version(number)
        if read is None:
            raise Misfit("it does not begin with a zero byte and the id of a registered Avro schema in four bytes")
        return read

    def _version(self, number: int) -> ReadAvro | None:
        if number not in self._by_id and not self._is_unknown(number):
            found = self._registry.by_id(number)
            if found is None or found.kind != "AVRO":
                self._unknown.add(number)
                return None
            self._by_id[number] = avro_reader(parse_avro(found.text, found.named), self._reader)
        return self._by_id.get(number)

    def _is_unknown(self, number: int) -> bool:
        """Bare data may begin like a frame; what is taken for ids then is not asked for without end."""
        return number in self._unknown or len(self._unknown) >= _UNKNOWN_MAX
