"""The forms in which a verb says what it asks of access control; `service/admission.py` has one for every verb."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import msgspec

from goqueue.base.access import Access, AclOperation, AclResource, Need, ResourceKind
from goqueue.base.commands import Caller

Ask: TypeAlias = Callable[..., Iterable[Need]]  # of the verb's arguments


class Attribute(msgspec.Struct, frozen=True):
    """What is asked for a value that is read, not called."""

    needs: Sequence[Need] = ()


class Viewed(msgspec.Struct, frozen=True):
    """A value that is read, of which the caller sees a part: `view` makes it."""

    view: Callable[[Any, Access, Caller], Any]


class Listed(msgspec.Struct, frozen=True):
    """Asks nothing: of the list that the verb returns, what the caller may not see is left out."""

    needs: Callable[[Any], Sequence[Need]]  # to see one of them


class Hidden(msgspec.Struct, frozen=True):
    """The verb returns None for what is not there, and for what the caller may not see."""

    ask: Ask


class LookedUp(msgspec.Struct, frozen=True):
    """The verb is given an id: what the service's `lookup` says about it is what is asked for."""

    lookup: str
    needs: Callable[[Any], Sequence[Need]]


class Delivering(msgspec.Struct, frozen=True):
    """Asks as usual, and once more for what came of it before that is handed over."""

    ask: Ask
    needs: Callable[[Any], Iterable[Need]]


class Noted(msgspec.Struct, frozen=True):
    """An administrator's look at messages: asks as usual, and the audit log has a line of it."""

    ask: Ask


class ToldCaller(msgspec.Struct, frozen=True):
    """Asks as usual, and the verb is told who asks: what else that caller must be allowed it finds out on the way."""

    ask: Ask


Rule: TypeAlias = Ask | Attribute | Viewed | Listed | Hidden | LookedUp | Delivering | Noted | ToldCaller
Verbs: TypeAlias = Mapping[str, Rule]


def named(operation: AclOperation, kind: ResourceKind) -> Ask:
    """The first argument is the thing's name."""
    return lambda name, *_, **__: ((operation, AclResource(kind, name)),)


def topic_needs(operation: AclOperation, names: Iterable[str]) -> list[Need]:
    return [(operation, AclResource(ResourceKind.TOPIC, name)) for name in dict.fromkeys(names)]


def always(operation: AclOperation, resource: AclResource) -> Ask:
    return lambda *_, **__: ((operation, resource),)


def anybody(*_: Any, **__: Any) -> Iterable[Need]:
    return ()
