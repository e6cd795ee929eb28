"""Does a value hold a Protobuf message? Protobuf's own package reads it.

It is a little more lenient than the broker: a known field of another wire type counts as an unknown one, and passes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from goqueue.pipeline.link.errors import PipelineError
from goqueue.pipeline.source.errors import Misfit
from goqueue.pipeline.source.proto_values import indexes_of, proto_descriptor


def proto_check(text: str, named: Mapping[str, str]) -> Callable[[bytes, bool], str | None]:
    """Why data is no message of the file: of the first one, or of that which framed data names."""
    factory, wrong = _package("message_factory"), _package("message").DecodeError
    first = proto_descriptor(text, named)

    def check(data: bytes, is_framed: bool) -> str | None:
        try:
            message, at = _chosen(first, data) if is_framed else (first, 0)
            factory.GetMessageClass(message).FromString(data[at:])
        except (wrong, Misfit) as error:
            return str(error)
        return None

    return check


def _package(name: str) -> Any:
    try:
        return import_module(f"google.protobuf.{name}")
    except ImportError:
        raise PipelineError("Checking Protobuf needs a package: pip install 'goqueue[schemas]'.") from None


def _chosen(first: Any, data: bytes) -> tuple[Any, int]:
    """The message that the indexes before the data lead to, and where the data begins."""
    steps, at = indexes_of(data, 0)
    return _message(first, list(steps)), at


def _message(first: Any, steps: list[int]) -> Any:
    known, found = list(first.file.message_types_by_name.values()), first
    for step in steps:
        if not 0 <= step < len(known):
            raise Misfit(f"the schema has no message at {steps}")
        found = known[step]
        known = list(found.nested_types)
    return found
