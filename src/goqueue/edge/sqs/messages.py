"""Between SQS's messages and the log's.

Body is value, message attributes are headers, the message group is the key. What has no place there (the id, when and
by whom it was sent, types other than String, FIFO's ids) is one more header, `goqueue-sqs`, as JSON. A message that
came through another door has none; its id is made from its place, its headers are String or Binary attributes.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Collection
from hashlib import md5
from typing import Any, Final
from uuid import UUID

import msgspec

from goqueue.base.commands import Headers, Stored
from goqueue.base.leases import Delivered
from goqueue.base.sqs_envelope import ILLEGAL, Envelope, envelope_in, with_envelope
from goqueue.base.trace_context import (
    TRACEPARENT,
    TRACESTATE,
    context_of,
    parse_traceparent,
    parse_xray,
    within,
    xray_text,
)
from goqueue.edge.sqs.checks import TRACE, CheckedMessage
from goqueue.edge.sqs.dead import DeadLetterHeaders, origin_of
from goqueue.edge.sqs.digests import Typed, attributes_md5, body_md5
from goqueue.edge.sqs.names import Arns

BROKERS_OWN: Final = "goqueue-"  # headers that begin so are shown only if they were sent as attributes
ENCODING: Final = "goqueue-encoding"
_REPLACED_BYTES_MAX: Final = 8 * 1024


class WantedAttributes(msgspec.Struct, frozen=True):
    """Which attributes a receive asks for."""

    system: Collection[str] = ()
    names: frozenset[str] = frozenset()
    prefixes: tuple[str, ...] = ()
    all_names: bool = False

    def has(self, name: str) -> bool:
        return self.all_names or name in self.names or (bool(self.prefixes) and name.startswith(self.prefixes))


def wanted_names(asked: list[str]) -> tuple[bool, frozenset[str], tuple[str, ...]]:
    """`All`, names, and prefixes like `foo.*`."""
    is_all = any(name in ("All", ".*", "*") for name in asked)
    prefixes = tuple(name[:-2] for name in asked if name.endswith(".*"))
    return is_all, frozenset(asked), prefixes


# --- in -------------------------------------------------------------------------------------------------


def headers_of(checked: CheckedMessage, envelope: Envelope) -> Headers:
    """All headers of a message to send."""
    return with_envelope(own_headers(checked, envelope), envelope_of(checked, envelope))


def own_headers(checked: CheckedMessage, envelope: Envelope) -> Headers:
    """The headers without the envelope."""
    headers = tuple((name, value) for name, _, value in checked.attributes)
    return within(headers, parse_xray(envelope.trace)) if envelope.trace else headers


def envelope_of(checked: CheckedMessage, envelope: Envelope) -> Envelope:
    """The envelope with what it says about the attributes."""
    types = {name: kind for name, kind, _ in checked.attributes if kind != "String" or _may_be_ours(name)}
    return msgspec.structs.replace(envelope, types=types, replaced=_replaceable(checked)) if types else envelope


def _may_be_ours(name: str) -> bool:
    """Headers that the broker adds, unless the sender did."""
    return name.startswith(BROKERS_OWN) or name in (TRACEPARENT, TRACESTATE)


def _replaceable(checked: CheckedMessage) -> dict[str, bytes]:
    """The sender's own, if they say nothing that tracing would keep."""
    found = {name: value for name, _, value in checked.attributes if name in (TRACEPARENT, TRACESTATE)}
    if parse_traceparent(found.get(TRACEPARENT)) is not None:
        return {}
    return {name: value for name, value in found.items() if len(value) <= _REPLACED_BYTES_MAX}


# --- out ------------------------------------------------------------------------------------------------


def message_out(delivered: Delivered, wanted: WantedAttributes, is_fifo: bool, arns: Arns) -> dict[str, Any]:
    """The message as a receive answers it."""
    stored = delivered.stored
    envelope = envelope_in(stored.headers) if stored.headers else None
    origin = origin_of(stored.headers) if stored.headers else None
    body, data = _body(stored.value)
    shown: dict[str, Any] = {
        "MessageId": envelope.id if envelope is not None and envelope.id else id_of_place(origin or stored),
        "ReceiptHandle": delivered.receipt,
        "MD5OfBody": body_md5(data),
        "Body": body,
    }
    if wanted.system:
        shown["Attributes"] = _chosen(_system(delivered, envelope or Envelope(), origin, is_fifo, arns), wanted)
    if wanted.all_names or wanted.names:
        is_encoded = data is not stored.value and stored.value is not None
        attributes = [one for one in _attributes(stored.headers, envelope, is_encoded) if wanted.has(one[0])]
        if attributes:
            shown["MD5OfMessageAttributes"] = attributes_md5(attributes)
            shown["MessageAttributes"] = {one[0]: _value_out(one) for one in attributes}
    return shown


def _body(value: bytes | None) -> tuple[str, bytes]:
    """Text as it is; what SQS cannot carry as base64. Also its bytes: the very value if it is text."""
    if value is None:
        return "", b""
    try:
        text = value.decode()
        if not ILLEGAL.search(text):
            return text, value
    except UnicodeDecodeError:
        pass
    encoded = b64encode(value)
    return encoded.decode(), encoded


def _attributes(headers: Headers, envelope: Envelope | None, is_encoded: bool) -> list[Typed]:
    """Exactly the sender's, if it sent them here; else the headers but the broker's own."""
    found: dict[str, Typed] = {}
    types = envelope.types if envelope is not None else {}
    if envelope is not None and envelope.replaced:
        was = {name: value for name, value in envelope.replaced.items() if name in (TRACEPARENT, TRACESTATE)}
        headers = (*(pair for pair in headers if pair[0] not in was), *was.items())
    for name, value in headers:
        is_ours = _may_be_ours(name) if envelope is not None else name.startswith(BROKERS_OWN)
        if value is None or (is_ours and name not in types):
            continue
        found[name] = (name, _type_of(types.get(name, ""), value), value)
    if is_encoded:
        found[ENCODING] = (ENCODING, "String", b"base64")
    return list(found.values())


def _type_of(told: str, value: bytes) -> str:
    """As the sender said, if the value can be that; whatever is text may be bytes too."""
    return told if told.startswith("Binary") or (told and _guess(value) == "String") else _guess(value)


def _guess(value: bytes) -> str:
    try:
        return "Binary" if ILLEGAL.search(value.decode()) else "String"
    except UnicodeDecodeError:
        return "Binary"


def _value_out(one: Typed) -> dict[str, Any]:
    _, kind, value = one
    if kind.startswith("Binary"):
        return {"BinaryValue": value, "DataType": kind}
    return {"StringValue": value.decode(errors="replace"), "DataType": kind}


def _system(
    delivered: Delivered, envelope: Envelope, origin: DeadLetterHeaders | None, is_fifo: bool, arns: Arns
) -> dict[str, str]:
    """The system attributes that the message has. Where it died before counts too."""
    stored = delivered.stored
    found = {
        "SenderId": envelope.sender,
        "SentTimestamp": str(envelope.sent_ms or (origin or stored).timestamp_ms),
        "ApproximateReceiveCount": str(delivered.attempt + (origin.attempts if origin else 0)),
        "ApproximateFirstReceiveTimestamp": str(delivered.first_leased_ms),
    }
    if (group := _group(stored)) is not None:
        found["MessageGroupId"] = group
    if is_fifo:
        found["MessageDeduplicationId"] = envelope.deduplication_id
        found["SequenceNumber"] = sequence_text(envelope.sequence or stored.offset)
    if trace := envelope.trace or _begun_trace(stored.headers, envelope):
        found[TRACE] = trace
    if origin is not None and origin.topic != stored.topic:
        found["DeadLetterQueueSourceArn"] = arns.of(origin.topic)
    return found


def _begun_trace(headers: Headers, envelope: Envelope) -> str:
    """The trace that the broker began; the sender's own is among its attributes."""
    context = None if TRACEPARENT in envelope.types else context_of(headers)
    return "" if context is None else xray_text(context)


def _chosen(found: dict[str, str], wanted: WantedAttributes) -> dict[str, str]:
    return found if "All" in wanted.system else {name: found[name] for name in wanted.system if name in found}


def _group(stored: Stored) -> str | None:
    try:
        group = stored.key.decode() if stored.key is not None else None
    except UnicodeDecodeError:
        return None
    return None if group is None or ILLEGAL.search(group) else group


def sequence_text(number: int) -> str:
    """AWS's sequence numbers have 20 digits."""
    return f"{number:020d}"


def id_of_place(at: Stored | DeadLetterHeaders) -> str:
    """The same id whenever the same message is read."""
    place = f"{at.topic}/{at.partition}/{at.offset}".encode()
    return str(UUID(bytes=md5(place, usedforsecurity=False).digest(), version=3))
