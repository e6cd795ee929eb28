"""The header `goqueue-sqs`: what an SQS message has and a log's message has no place for, as JSON.

The door writes it and reads it; FIFO's deduplication reads it again after a start.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

from goqueue.base.ids import Millis

ENVELOPE: Final = "goqueue-sqs"
SENDER: Final = "anonymous"
TEXT_CHARS_MAX: Final = 1_024  # no id, type or trace header is longer
ILLEGAL: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_TYPE: Final = re.compile(r"(String|Number|Binary)(\..+)?", re.DOTALL)
_ENVELOPE_BYTES_MAX: Final = 64 * 1024
_NUMBER_END: Final = 1 << 63

_Headers = tuple[tuple[str, bytes | None], ...]


class Envelope(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the header holds."""

    id: str = ""
    sent_ms: Millis = 0
    sender: str = SENDER
    types: dict[str, str] = {}
    trace: str = ""
    deduplication_id: str = ""
    sequence: int = 0
    replaced: dict[str, bytes] = {}  # attributes as they were sent, where tracing may put others in their place


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Envelope).decode


def with_envelope(headers: _Headers, envelope: Envelope) -> _Headers:
    return (*headers, (ENVELOPE, _encode(envelope)))


def envelope_in(headers: _Headers) -> Envelope | None:
    """The last one wins; one that cannot be read is none."""
    for name, value in reversed(headers):
        if name == ENVELOPE and value is not None:
            try:
                return _sound(_decode(value)) if len(value) <= _ENVELOPE_BYTES_MAX else None
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                return None
    return None


def is_type(kind: str) -> bool:
    """Whether a message attribute can be of this type."""
    return _TYPE.fullmatch(kind) is not None and ILLEGAL.search(kind) is None


def _sound(envelope: Envelope) -> Envelope | None:
    """None if the door did not write it: Kafka's producers can send a header of any name."""
    texts = (envelope.id, envelope.sender, envelope.trace, envelope.deduplication_id, *envelope.types.values())
    if any(len(text) > TEXT_CHARS_MAX or ILLEGAL.search(text) for text in texts):
        return None
    numbers_fit = 0 <= envelope.sent_ms < _NUMBER_END and 0 <= envelope.sequence < _NUMBER_END
    return envelope if numbers_fit and all(map(is_type, envelope.types.values())) else None
