"""Values by the registry: Avro, Protobuf and JSON that say which schema they were written with, as plain data."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from struct import unpack
from typing import Any, Final

from goqueue.base.errors import GoQueueError
from goqueue.cli.schema_texts import referred_schemas, whole_schema
from goqueue.client import Client, ConnectionFailed, GoQueueClientError, Message
from goqueue.client.schemas import schema_by_id
from goqueue.core.schemas.avro_cursor import AvroCursor
from goqueue.core.schemas.avro_data import AvroChecker
from goqueue.core.schemas.avro_schema import AvroDocument, AvroType
from goqueue.core.schemas.framing import HEADERS, Framed, by_header, by_prefix, prefix_id
from goqueue.core.schemas.kinds import parse
from goqueue.core.schemas.mismatch import Mismatch
from goqueue.core.schemas.proto_schema import ProtoDocument

_KNOWN_MAX: Final = 1_000
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class RegistryDecoded:
    """Plain data, and which schema said so."""

    def __init__(self, data: Any, schema: str) -> None:
        self.data = data
        self.schema = schema


class ValueDecoder:
    """Asks for each schema once. What is not framed, not known or not whole is None: it is shown as it is."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._known: dict[int, Any] = {}

    def decode(self, message: Message) -> RegistryDecoded | None:
        data = message.value
        if not data:
            return None
        try:
            framed = self._framed(message, data)
            document = None if framed is None else self._document(framed.id)
            if framed is None or document is None:
                return None
            return RegistryDecoded(_plain(document, framed), f"schema {framed.id}")
        except (Mismatch, GoQueueError, ValueError):
            return None

    def _framed(self, message: Message, data: bytes) -> Framed | None:
        if any(name == HEADERS["value"] for name, _ in message.headers):
            return by_header("value", data, message.headers, lambda guid: None)
        if prefix_id(data) is None:
            return None
        return by_prefix(data, lambda schema_id: isinstance(self._document(schema_id), ProtoDocument))

    def _document(self, schema_id: int) -> Any:
        if schema_id not in self._known and len(self._known) < _KNOWN_MAX:
            self._known[schema_id] = self._ask(schema_id)
        return self._known.get(schema_id)

    def _ask(self, schema_id: int) -> Any:
        try:
            found = self._client.perform(schema_by_id(schema_id))
            return parse(whole_schema(found), referred_schemas(self._client, found))
        except ConnectionFailed:
            raise
        except (GoQueueClientError, GoQueueError):
            return None


def _plain(document: Any, framed: Framed) -> Any:
    if isinstance(document, AvroDocument):
        return avro_value(document, framed.data)
    if isinstance(document, ProtoDocument):
        return _proto_value(document, framed)
    import msgspec

    return msgspec.json.decode(framed.data)


def _proto_value(document: ProtoDocument, framed: Framed) -> Any:
    from google.protobuf.json_format import MessageToDict
    from google.protobuf.message import DecodeError
    from google.protobuf.message_factory import GetMessageClass

    kind = document.message(framed.indexes or (0,))
    if kind is None:
        raise ValueError("the schema has no such message")
    message = GetMessageClass(kind)()
    try:
        message.ParseFromString(framed.data)
    except DecodeError as error:
        raise ValueError(str(error)) from None
    return MessageToDict(message, preserving_proto_field_name=True)


# --- Avro ---------------------------------------------------------------------------------------------


def avro_value(document: AvroDocument, data: bytes) -> Any:
    """Checked first, so that it is bounded by the length of the data; `Mismatch` if it is not whole."""
    AvroChecker(document).check(data)
    return _AvroReader(data).value(document.root)


class _AvroReader(AvroCursor):
    def value(self, type_: AvroType) -> Any:
        kind = type_.kind
        if kind == "record":
            return {field.name: self.value(field.type) for field in type_.fields}
        if kind == "union":
            return self.value(type_.branches[self.choice(len(type_.branches), "branch")])
        if kind == "enum":
            return type_.symbols[self.choice(len(type_.symbols), "symbol")]
        if kind == "array":
            return [value for _, value in self._entries(type_)]
        if kind == "map":
            return dict(self._entries(type_))
        return _meaning(type_, self._simple(type_))

    def _entries(self, type_: AvroType) -> list[tuple[str, Any]]:
        found: list[tuple[str, Any]] = []
        while count := self.number():
            if count < 0:
                count, _ = -count, self.number()
            for _ in range(count):
                key = self.text() if type_.kind == "map" else ""
                found.append((key, self.value(type_.element)))
        return found

    def _simple(self, type_: AvroType) -> Any:
        kind = type_.kind
        if kind in ("int", "long"):
            return self.number()
        if kind == "string":
            return self.text()
        if kind == "bytes":
            return self.octets()
        if kind == "boolean":
            return self.truth()
        if kind == "fixed":
            return self.take(type_.size)
        if kind == "null":
            return None
        return unpack("<f" if kind == "float" else "<d", self.take(4 if kind == "float" else 8))[0]


def _meaning(type_: AvroType, value: Any) -> Any:
    """Times and decimals as texts, other bytes as base64 (by the encoder)."""
    if type_.logical == "decimal":
        return str(Decimal(int.from_bytes(value, "big", signed=True)).scaleb(-type_.scale))
    if type_.logical:
        return _moment(type_.logical, value)
    return value


def _moment(logical: str, value: int) -> Any:
    try:
        if logical == "date":
            return (date(1970, 1, 1) + timedelta(days=value)).isoformat()
        moment = _EPOCH + timedelta(microseconds=value if logical.endswith("micros") else value * 1_000)
    except OverflowError:
        return value
    text = moment.isoformat(timespec="milliseconds")
    return text.replace("+00:00", "" if logical.startswith("local") else "Z")
