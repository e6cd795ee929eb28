"""Requests of very many elements, worked on in parts, so that no client waits for another's.

Where the elements of a request are answered one by one, a part of the request is a request, and the answers of all
parts in a row are its answer. The loop is given to others between the parts.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from goqueue.base.limits import (
    REQUEST_ELEMENTS_MAX,
    SLICE_ELEMENTS,
    SLICE_PRODUCE_ELEMENTS,
    SLICED_ANSWER_BYTES_MAX,
    WHOLE_REQUEST_ELEMENTS_MAX,
)
from goqueue.edge.kafka.calls import Handler, KafkaCall
from goqueue.wire.api import Api
from goqueue.wire.errors import WireError

PRODUCE: Final = 0
Path = tuple[str, ...]  # fields, each an array of what the next is a field of


class Sliced(msgspec.Struct, frozen=True):
    """From a version on: where the elements of a request are, and where those of its answer."""

    first_version: int
    asked: Path
    answered: Path


_FLAT_TOPICS: Final = (Sliced(0, ("topics",), ("topics",)),)
_PARTITIONS: Final = (Sliced(0, ("topics", "partitions"), ("topics", "partitions")),)

SLICED: Final[dict[int, Sequence[Sliced]]] = {
    0: (Sliced(0, ("topic_data", "partition_data"), ("responses", "partition_responses")),),
    3: _FLAT_TOPICS,
    8: _PARTITIONS,
    9: (
        Sliced(0, ("topics", "partition_indexes"), ("topics", "partitions")),
        Sliced(8, ("groups", "topics", "partition_indexes"), ("groups", "topics", "partitions")),
    ),
    13: (Sliced(3, ("members",), ("members",)),),
    10: (Sliced(4, ("coordinator_keys",), ("coordinators",)),),
    15: (Sliced(0, ("groups",), ("groups",)),),
    20: (Sliced(0, ("topic_names",), ("responses",)), Sliced(6, ("topics",), ("responses",))),
    21: _PARTITIONS,
    23: _PARTITIONS,
    27: (Sliced(0, ("markers", "topics", "partition_indexes"), ("markers", "topics", "partitions")),),
    28: _PARTITIONS,
    32: (Sliced(0, ("resources",), ("results",)),),
    33: (Sliced(0, ("resources",), ("responses",)),),
    42: (Sliced(0, ("groups_names",), ("results",)),),
    44: (Sliced(0, ("resources",), ("responses",)),),
    61: (Sliced(0, ("topics", "partition_indexes"), ("topics", "partitions")),),
    65: (Sliced(0, ("transactional_ids",), ("transaction_states",)),),
    69: (Sliced(0, ("group_ids",), ("groups",)),),
    77: (Sliced(0, ("group_ids",), ("groups",)),),
}
# Fetch, ListOffsets, CreateTopics, ShareFetch and ShareAcknowledge need the whole; they pause by themselves.
PACED: Final = frozenset({1, 2, 19, 78, 79})


def elements_max(api: Api) -> int:
    """Elements that a request may have in all its arrays."""
    return REQUEST_ELEMENTS_MAX if api.key in SLICED or api.key in PACED else WHOLE_REQUEST_ELEMENTS_MAX


def at_once(api: Api) -> int:
    """Elements that are worked on at one go."""
    return SLICE_PRODUCE_ELEMENTS if api.key == PRODUCE else SLICE_ELEMENTS


async def answer_in_slices(api: Api, call: KafkaCall, handler: Handler, request: Any) -> Any:
    """The handler's answer to a request of many elements; None if it has none."""
    shape = _shape(api.key, call.version)
    parts = [request] if shape is None else list(split(request, shape.asked, at_once(api)))
    whole, size = None, 0
    for part in parts:
        answer = handler(call, part)
        if inspect.isawaitable(answer):
            answer = await answer
        await asyncio.sleep(0)
        if answer is None or shape is None:
            whole = answer
            continue
        size += sum(map(len, api.encode_response(call.version, answer))) if len(parts) > 1 else 0
        if size > SLICED_ANSWER_BYTES_MAX:
            raise WireError(f"{api.name} asks for an answer of more than {SLICED_ANSWER_BYTES_MAX} bytes")
        whole = answer if whole is None else join(whole, answer, shape.answered)
    return whole


def _shape(key: int, version: int) -> Sliced | None:
    fitting = [one for one in SLICED.get(key, ()) if one.first_version <= version]
    return fitting[-1] if fitting else None


def split(node: Any, path: Path, size: int) -> Iterator[Any]:
    """The same message several times, each with the next so many elements; one without elements stays as it is."""
    rest: Any = node
    while rest is not None:
        head, rest, _ = _cut(rest, path, size)
        yield head


def _cut(node: Any, path: Path, room: int) -> tuple[Any, Any | None, int]:
    """The node with its first elements, the node with those that are left (or None), and how many the first has."""
    items = getattr(node, path[0])
    if not items:
        return node, None, 0
    if len(path) == 1:
        taken = min(room, len(items))
        rest = replace(node, **{path[0]: items[taken:]}) if taken < len(items) else None
        return replace(node, **{path[0]: items[:taken]}), rest, taken
    heads: list[Any] = []
    used = 0
    for place, item in enumerate(items):
        if used >= room:
            return replace(node, **{path[0]: heads}), replace(node, **{path[0]: items[place:]}), used
        head, rest, taken = _cut(item, path[1:], room - used)
        heads.append(head)
        used += 1 + taken
        if rest is not None:
            left = [rest, *items[place + 1 :]]
            return replace(node, **{path[0]: heads}), replace(node, **{path[0]: left}), used
    return node, None, used


def join(first: Any, second: Any, path: Path) -> Any:
    """One message of two. What was cut in the middle is put together again; what failed in part has failed: a client
    would take the rest for all there is."""
    field = path[0]
    head, tail = list(getattr(first, field)), list(getattr(second, field))
    if len(path) > 1 and head and tail and _same_but(head[-1], tail[0], path[1]):
        head[-1] = join(head[-1], tail.pop(0), path[1:])
    return replace(first, **{field: head + tail}, **_error_of(first, second))


def _error_of(first: Any, second: Any) -> dict[str, int]:
    return {"error_code": first.error_code or second.error_code} if hasattr(first, "error_code") else {}


def _same_but(one: Any, other: Any, field: str) -> bool:
    """Whether they differ in this field alone, or in that one of them failed."""
    error = _error_of(one, other)
    return bool(replace(one, **{field: ()}, **error) == replace(other, **{field: ()}, **error))
