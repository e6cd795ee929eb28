"""What AWS refuses in a message before it is sent, in AWS's words."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

import msgspec

from goqueue.base.sqs_envelope import ENVELOPE, ILLEGAL, is_type
from goqueue.edge.sqs.digests import Typed
from goqueue.edge.sqs.errors import SqsError, invalid, invalid_value, missing
from goqueue.edge.sqs.schema import Attributes, AttributeValue, Sent

DELAY_S_MAX: Final = 900
ATTRIBUTES_MAX: Final = 10
TRACE_CHARS_MAX: Final = 1_024
TRACE: Final = "AWSTraceHeader"

_NAME: Final = re.compile(r"[\w.-]+")  # letters of any script, as AWS does
_RESERVED: Final = re.compile(r"(?i)aws\.|amazon\.|\.")
_NUMBER: Final = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,3})?")
_ID: Final = re.compile(r"[!-~]{1,128}")


class CheckedMessage(msgspec.Struct, frozen=True):
    """A message that may be sent: its parts as bytes."""

    body: bytes
    attributes: tuple[Typed, ...]
    trace: str
    size: int


def check_message(sent: Sent) -> CheckedMessage:
    """Body and attributes; everything that does not depend on the queue."""
    if not sent.message_body:
        raise missing("MessageBody")
    if ILLEGAL.search(sent.message_body):
        raise SqsError(
            "InvalidMessageContents",
            "Invalid characters found. Valid unicode characters are #x9 | #xA | #xD | #x20 to #xD7FF | "
            "#xE000 to #xFFFD | #x10000 to #x10FFFF",
        )
    body = sent.message_body.encode()
    attributes = tuple(_attributes(sent.message_attributes)) if sent.message_attributes else ()
    size = len(body) + sum(len(name.encode()) + len(kind.encode()) + len(value) for name, kind, value in attributes)
    trace = _trace(sent.message_system_attributes) if sent.message_system_attributes else ""
    return CheckedMessage(body, attributes, trace, size)


def trace_of_request(header: bytes | None) -> str:
    """What the HTTP header `X-Amzn-Trace-Id` says of the messages that a request sends; an odd one says nothing."""
    text = (header or b"").decode("latin-1")
    return text if len(text) <= TRACE_CHARS_MAX and not ILLEGAL.search(text) else ""


def check_id(value: str, parameter: str) -> str:
    """A message group's or a deduplication id."""
    if not _ID.fullmatch(value):
        reason = f"{parameter} can only include alphanumeric and punctuation characters. 1 to 128 in length."
        raise invalid_value(value, parameter, reason)
    return value


def check_delay_s(value: int) -> int:
    if not 0 <= value <= DELAY_S_MAX:
        raise invalid_value(value, "DelaySeconds", f"DelaySeconds must be >= 0 and <= {DELAY_S_MAX}.")
    return value


def _attributes(given: Attributes) -> Iterator[Typed]:
    if len(given) > ATTRIBUTES_MAX:
        raise invalid(f"Number of message attributes [{len(given)}] exceeds the allowed maximum [{ATTRIBUTES_MAX}].")
    for name, value in given.items():
        _check_name(name)
        yield name, value.data_type or "", _value(name, value)


def _check_name(name: str) -> None:
    if len(name.encode(errors="replace")) > 256:
        raise invalid("Message (user) attribute names must be shorter than 256 Bytes")
    if not _NAME.fullmatch(name):
        raise invalid(
            "Message (user) attributes name can only contain upper and lower score characters, digits, periods, "
            "hyphens and underscores. "
        )
    if _RESERVED.match(name) or name.endswith(".") or ".." in name:
        raise invalid(
            "You can't use message attribute names beginning with 'AWS.' or 'Amazon.'. These strings are reserved for "
            "internal use. Additionally, they cannot start or end with '.'."
        )
    if name == ENVELOPE:
        raise invalid(f"The message attribute name {ENVELOPE} is the broker's own.")


def _value(name: str, given: AttributeValue, of: str = "(user)") -> bytes:
    kind = given.data_type
    if not kind:
        raise invalid(f"The message attribute '{name}' must contain a non-empty message attribute type.")
    if len(kind) > 256:
        raise invalid("Message (user) attribute types must be shorter than 256 Bytes")
    if not is_type(kind):
        raise invalid(
            f"The message attribute '{name}' has an invalid message attribute type, the set of supported type "
            "prefixes is Binary, Number, and String."
        )
    if kind.startswith("Binary"):
        if not given.binary_value:
            raise _empty(name, kind, of)
        return given.binary_value
    if not given.string_value:
        raise _empty(name, kind, of)
    if ILLEGAL.search(given.string_value):
        raise invalid(f"Message {of} attribute '{name}' contains invalid characters.")
    if kind.startswith("Number") and not _NUMBER.fullmatch(given.string_value):
        raise invalid(f"Can't cast the value of message {of} attribute '{name}' to a number.")
    return given.string_value.encode()


def _empty(name: str, kind: str, of: str) -> SqsError:
    return invalid(f"Message {of} attribute '{name}' must contain a non-empty value of type '{kind}'.")


def _trace(given: Attributes) -> str:
    for name, value in given.items():
        if name != TRACE:
            raise invalid(f"Message system attribute name '{name}' is invalid.")
        if value.data_type != "String":
            raise invalid(f"Message system attribute '{TRACE}' must be of type 'String'.")
        trace = _value(name, value, "(system)").decode()
        if len(trace) > TRACE_CHARS_MAX:
            raise invalid(f"Message system attribute '{TRACE}' has more than {TRACE_CHARS_MAX} characters.")
        return trace
    return ""
