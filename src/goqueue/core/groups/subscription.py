"""Which topics a member reads: the ones it names and the ones its pattern matches."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from goqueue.base.limits import GROUP_PATTERNS_MAX
from goqueue.core.groups.errors import GroupFull
from goqueue.core.groups.records import ConsumerMember
from goqueue.core.patterns import InvalidPattern, compile_pattern


def check_pattern(pattern: str, members: Iterable[ConsumerMember]) -> None:
    """Raises if it is none, or if the group's members have too many different ones."""
    compile_pattern(pattern)
    known = {member.regex for member in members if member.regex}
    if pattern not in known and len(known) >= GROUP_PATTERNS_MAX:
        raise GroupFull(f"The group's members have {GROUP_PATTERNS_MAX} different patterns; use one of them.")


def topics_of(member: ConsumerMember, topics: Mapping[str, int]) -> frozenset[str]:
    """Every topic the member is subscribed to, existing or not."""
    if not member.regex:
        return frozenset(member.topics)
    try:
        return compile_pattern(member.regex).among(topics).union(member.topics)
    except InvalidPattern:  # stored by a node that took it
        return frozenset(member.topics)
