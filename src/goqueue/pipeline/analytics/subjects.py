"""What the node's registry holds for topics: the schemas of their values, each with its version."""

from __future__ import annotations

from collections.abc import Collection, Iterable

import msgspec

from goqueue.client.schemas import RegisteredSchema, schemas
from goqueue.pipeline.link.identity import node_client
from goqueue.pipeline.source.registry import Registered, registry


class RegisteredSchemas(msgspec.Struct, frozen=True):
    """The schemas of a topic's values. `latest` is None where nothing is registered, or no more."""

    versions: dict[int, int] = {}  # by schema id
    latest: int | None = None


def subjects(url: str, topics: Collection[str]) -> dict[str, RegisteredSchemas]:
    """By topic. Deleted versions count: messages were written with them."""
    with node_client(url) as client:
        found = client.perform(schemas(latest_only=False, deleted=True))
        living = client.perform(schemas(latest_only=True))
    return {topic: _subject(topic, found, living) for topic in topics}


def _subject(topic: str, found: Iterable[RegisteredSchema], living: Iterable[RegisteredSchema]) -> RegisteredSchemas:
    """Named after the topic with `-value` behind it; the bare name counts too, after that."""
    names = (f"{topic}-value", topic)
    ordered = sorted((one for one in found if one.subject in names), key=lambda one: names.index(one.subject or ""))
    versions = {one.id: one.version for one in reversed(ordered) if one.id is not None and one.version is not None}
    latest = {one.subject: one.id for one in living if one.subject in names}
    return RegisteredSchemas(versions, next((latest[name] for name in names if name in latest), None))


def texts(url: str, ids: Collection[int]) -> dict[int, Registered]:
    """The schemas themselves, with what they refer to."""
    source = registry(url)
    found = {number: source.by_id(number) for number in sorted(ids)}
    return {number: one for number, one in found.items() if one is not None}
