"""What verbs about dead letters ask of access control: they leave one topic and enter others, which headers name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from goqueue.base.access import AclOperation, AclResource, Need, ResourceKind
from goqueue.base.topic_config import DEAD_LETTER_TOPIC
from goqueue.core.dead_letter import EVERYTHING, DeadLetterFilter
from goqueue.core.redrive import RedriveRequest
from goqueue.service.asking import LookedUp, Noted, ToldCaller, Verbs, named, topic_needs
from goqueue.service.dead_letter_view import DeadLetterView
from goqueue.service.dead_letters import Redrives

READ, WRITE, DELETE = AclOperation.READ, AclOperation.WRITE, AclOperation.DELETE
ALTER, DESCRIBE = AclOperation.ALTER, AclOperation.DESCRIBE
TOPIC: Final = ResourceKind.TOPIC


def dead_letter_needs(config: Mapping[str, object]) -> list[Need]:
    """Who may read, redrive and delete a topic's dead letters is asked of the topic: whoever says that they lie in
    another one has to be allowed as much there."""
    target = config.get(DEAD_LETTER_TOPIC)
    return [
        need for operation in (READ, WRITE, DELETE) for need in topic_needs(operation, [str(target)] if target else [])
    ]


def _redrive(
    name: str,
    to: str | None = None,
    _: int | None = None,
    filter: DeadLetterFilter = EVERYTHING,  # noqa: A002
    *__: object,
    **___: object,
) -> list[Need]:
    """Messages leave one topic and enter others. Where it is not known which, the verb asks for each letter."""
    target = to or filter.topic
    return [(ALTER, AclResource(TOPIC, name)), *topic_needs(WRITE, [target] if target else [])]


def _preview(asked: RedriveRequest, **_: object) -> list[Need]:
    return [(DESCRIBE, AclResource(TOPIC, asked.source)), *topic_needs(WRITE, [asked.to] if asked.to else [])]


LETTERS: Final[Mapping[type, Verbs]] = {
    DeadLetterView: {
        "home_of": named(DESCRIBE, TOPIC),
        "page": Noted(named(READ, TOPIC)),
        "show": Noted(named(READ, TOPIC)),
        "stats": named(DESCRIBE, TOPIC),
        "delete": named(DELETE, TOPIC),
    },
    Redrives: {
        "start": ToldCaller(_redrive),
        "preview": ToldCaller(_preview),
        "tasks": named(DESCRIBE, TOPIC),
        "find": LookedUp("find", lambda task: ((DESCRIBE, AclResource(TOPIC, task.source)),)),
        "cancel": LookedUp("find", lambda task: ((ALTER, AclResource(TOPIC, task.source)),)),
    },
}
