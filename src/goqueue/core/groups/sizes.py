"""How much memory members take, about: what they say about themselves and what they are given."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from goqueue.core.groups.records import ClassicMember, ConsumerMember

_MEMBER_BYTES: Final = 500  # what any member takes
_ENTRY_BYTES: Final = 100  # a protocol, or the name of a topic
_PARTITION_BYTES: Final = 8


def classic_bytes(member: ClassicMember) -> int:
    """Without its assignment."""
    names = _names(member.member_id, member.instance_id, member.client_id, member.client_host)
    return names + protocols_bytes(member.protocols)


def protocols_bytes(protocols: Sequence[tuple[str, bytes]]) -> int:
    return sum(_ENTRY_BYTES + len(name) + len(metadata) for name, metadata in protocols)


def consumer_bytes(member: ConsumerMember) -> int:
    """With its target; what it reads now is nearly the same."""
    names = _names(
        member.member_id, member.instance_id, member.client_id, member.client_host, member.rack, member.regex
    )
    names += protocols_bytes(member.protocols)
    topics = sum(_ENTRY_BYTES + len(topic) for topic in member.topics)
    return names + topics + sum(_ENTRY_BYTES + _PARTITION_BYTES * len(found) for found in member.target.values())


def _names(*texts: str | None) -> int:
    return _MEMBER_BYTES + sum(len(text) for text in texts if text)
