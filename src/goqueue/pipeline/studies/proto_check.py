"""Does a value hold a Protobuf message? Protobuf's own package reads it.

It is a little more lenient than the broker: a known field of another wire type counts as an unknown one, and passes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, Final

from goqueue.pipeline.link.errors import PipelineError
from goqueue.pipeline.source.errors import Misfit
from goqueue.pipeline.source.proto_values import proto_descriptor

_INDEXES_MAX: Final = 32


def proto_check(text: str, named: Mapping[str, str]) -> Callable[[bytes, bool], str | None]:
    """Why data is no message of the file: of the first one, or of that which framed data names."""
    factory, wrong = _package("message_factory"), _package("message").DecodeError
    first = proto_descriptor(text, named)

    def check(data: bytes, is_framed: bool) -> str | None:
        try:
            message, at = _chosen(first, data) if is_framed else (first, 0)
            factory.GetMessageClass(message).FromString(data[at:])
        except (wrong, Misfit) as why:
            return str(why)
        return None

    return check


def _package(name: str) -> Any:
    try:
        return import_module(f"google.protobuf.{name}")
    except ImportError:
        raise PipelineError("Checking Protobuf needs a package: pip install 'goqueue[schemas]'.") from None


def _chosen(first: Any, data: bytes) -> tuple[Any, int]:
    """The message that the indexes before the data lead to, and where the data begins. No index means the first."""
    count, at = _varint(data, 0)
    if not 0 <= count <= _INDEXES_MAX:
        raise Misfit(f"{count} is no number of message indexes")
    steps: list[int] = []
    for _ in range(count):
        step, at = _varint(data, at)
        steps.append(step)
    return _message(first, steps or [0]), at


def _message(first: Any, steps: list[int]) -> Any:
    known, found = list(first.file.message_types_by_name.values()), first
    for step in steps:
        if not 0 <= step < len(known):
            raise Misfit(f"the schema has no message at {steps}")
        found = known[step]
        known = list(found.nested_types)
    return found


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """A zigzag varint, and the place behind it."""
    result = shift = 0
    while at < len(data) and shift <= 35:
        byte = data[at]
        at, result = at + 1, result | (byte & 0x7F) << shift
        if byte < 0x80:
            return (result >> 1) ^ -(result & 1), at
        shift += 7
    raise Misfit("the message indexes are cut off")
