"""The reference of the gRPC API, from its file: every service, method, message and field with what it is for. What has
no comment there, or is not as the node has it, stops the build."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, Final

from goqueue.wire import goqueue_pb2
from tools.site.proto import ProtoField, ProtoType, parse_proto
from tools.site.reference import page, table

PROTO: Final = Path(__file__).parents[2] / "src/goqueue/wire/proto/goqueue/v1/goqueue.proto"
# Fields that mean the same wherever they are, and need no comment in the file.
USUAL: Final = {
    "attempt": "How often it was handed out, this time included.",
    "client_id": "What the client calls itself.",
    "cluster_id": "The cluster's name for itself.",
    "controller": "The node that elects leaders, if there is one.",
    "created_ms": "When it was created.",
    "deliver_at_ms": "When it is due.",
    "end_offset": "The offset that the next message gets.",
    "epoch": "Counts who came after whom; an older one is refused.",
    "error": "What was wrong.",
    "failures": "How often it failed.",
    "generation": "Counts the times that the group shared out its partitions.",
    "group": "The consumer group's name.",
    "headers": "In order; a name may occur more than once.",
    "high_watermark": "Where readers end.",
    "id": "The one that it is known by.",
    "in_sync": "Nodes whose replica has everything.",
    "index": "The place in the request, from 0.",
    "isolation": "Which messages are seen.",
    "key": "Messages with the same key are in the same partition.",
    "kind": "What kind of group it is.",
    "leader": "The node that leads it, if one does.",
    "leased_until_ms": "Until when it is the member's.",
    "member_id": "As the group knows the member.",
    "messages": "How many messages there are.",
    "mode": "shared or partition.",
    "name": "The name.",
    "num_partitions": "How many partitions it has.",
    "offset": "The place in the partition's log.",
    "partition": "The partition's number, from 0.",
    "partitions": "Numbers of partitions.",
    "producer": "As InitProducer, or the last answer, told it.",
    "producer_id": "The producer's number.",
    "reason": "Why; kept with the message.",
    "receipt": "What names the message in answers to it.",
    "receipts": "Which messages.",
    "replicas": "Nodes that have it, the preferred leader first.",
    "revision": "Counts the changes of the cluster's metadata.",
    "schema": "The schema.",
    "shard": "The shard's number.",
    "size_bytes": "How much it takes on the disk.",
    "start_offset": "The first offset that is still there.",
    "state": "How it stands, in a word.",
    "subject": "The subject's name.",
    "timestamp_ms": "The message's time.",
    "topic": "The topic's name.",
    "transactional_id": "The name that a producer keeps over restarts.",
    "value": "The content.",
    "version": "The subject's version, from 1.",
}
_ABOUT: Final = (
    "Every service, method, message and field of the package `goqueue.v1`, from the file that stubs are made of. "
    "[gRPC](../grpc.md) shows how they are used. *List of* is `repeated`; a field that is *optional* can be told from "
    "one that has its default."
)


def grpc_page(text: str | None = None) -> str:
    """Of the file's text, default as it is in the tree."""
    types = parse_proto(PROTO.read_text() if text is None else text)
    if lacking := [*uncommented(types), *strangers(types)]:
        raise SystemExit("\n".join(["goqueue.proto lacks comments, or is not what `make codec` made:", *lacking]))
    names = {one.name for one in types}
    uses = _uses(types)
    parts = [
        f"## {title[0].upper()}{title[1:]}\n\n" + "\n".join(_part(one, names, uses) for one in some)
        for title, some in groupby(types, lambda one: one.section)
    ]
    return page("gRPC API", _ABOUT, *parts)


def uncommented(types: Sequence[ProtoType]) -> Iterator[str]:
    """What the file says nothing of, and nobody can guess."""
    uses = _uses(types)
    for one in types:
        if not one.comment and one.name not in uses:
            yield f"{one.kind} {one.name} has no comment"
        yield from (f"{one.name}.{method.name} has no comment" for method in one.methods if not method.comment)
        yield from (f"{one.name}.{field.name} has no comment" for field in one.fields if not _meaning(field))


def strangers(types: Sequence[ProtoType]) -> Iterator[str]:
    """What is in the file or in the compiled messages, and not in both."""
    file = goqueue_pb2.DESCRIPTOR
    compiled = {
        f"{service.name}.{method.name}" for service in _all(file.services_by_name) for method in service.methods
    }
    for message in _all(file.message_types_by_name):
        compiled |= {message.name, *(f"{message.name}.{field.name}={field.number}" for field in message.fields)}
    for enum in _all(file.enum_types_by_name):
        compiled |= {enum.name, *(f"{enum.name}.{value.name}={value.number}" for value in enum.values)}
    found = {one.name for one in types if one.kind != "service"}
    for one in types:
        found |= {f"{one.name}.{method.name}" for method in one.methods}
        found |= {f"{one.name}.{field.name}={field.number}" for field in one.fields}
    yield from (f"{name} is on one side alone" for name in sorted(found ^ compiled))


def _all(named: Any) -> list[Any]:
    return list(named.values())


def _uses(types: Sequence[ProtoType]) -> dict[str, str]:
    """Of requests and answers: which methods they belong to."""
    found: dict[str, list[str]] = {}
    for service in types:
        for method in service.methods:
            found.setdefault(method.request, []).append(f"Request of `{method.name}`.")
            found.setdefault(method.answer, []).append(f"Answer of `{method.name}`.")
    return {name: " ".join(told) for name, told in found.items()}


def _part(one: ProtoType, names: set[str], uses: dict[str, str]) -> str:
    if one.kind == "service":
        rows = (
            (
                f"`{method.name}`",
                method.comment,
                f"{_stream(method.is_request_stream)}{_link(method.request)}<br>"
                f"to {_stream(method.is_answer_stream)}{_link(method.answer)}",
            )
            for method in one.methods
        )
        return f"### Service {one.name}\n\n{one.comment}\n\n" + table(("method", "what it does", "from, to"), rows)
    about = " ".join(filter(None, (one.comment, uses.get(one.name))))
    head = f"### {one.name}\n\n{about}\n\n"
    if not one.fields:
        return f"{head}It has no fields.\n"
    if one.kind == "enum":
        values = ((f"`{value.name}` = {value.number}", value.comment) for value in one.fields)
        return head + table(("value, number", "what it means"), values)
    fields = (
        (f"`{field.name}` = {field.number}<br>{_type(field, names)}", _meaning(field) + _choice(field))
        for field in one.fields
    )
    return head + table(("field, number, type", "what it says"), fields)


def _stream(is_stream: bool) -> str:
    return "stream of " if is_stream else ""


def _link(name: str) -> str:
    return f"[{name}](#{name.lower()})"


def _type(field: ProtoField, names: set[str]) -> str:
    """Types of this file lead to their place on the page."""
    shown = re.sub(r"\w+", lambda word: _link(word[0]) if word[0] in names else word[0], field.kind)
    shown = shown.replace("<", "&lt;").replace(">", "&gt;")
    return {"repeated": "list of ", "optional": "optional "}.get(field.label, "") + shown


def _meaning(field: ProtoField) -> str:
    return field.comment or USUAL.get(field.name, "")


def _choice(field: ProtoField) -> str:
    return f" One of `{field.choice}`." if field.choice else ""
