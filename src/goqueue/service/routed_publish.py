"""Publish for all nodes: where each message goes is decided here, and the node that leads there stores it.

A message whose fate is unknown, because its node did not answer, is not sent again: its publisher is told, and decides.
Messages with a deduplication id are sent again: a second one is recognised.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

from msgspec.structs import replace

from goqueue.base.commands import (
    DeduplicationScope,
    InputMessage,
    OnceResult,
    PublishMessages,
    PublishOnce,
    PublishResult,
    ScheduledAt,
    StoredAt,
)
from goqueue.base.errors import GoQueueError
from goqueue.base.ids import TopicPartition
from goqueue.drive.topic_table import Topic
from goqueue.service.publish import Publish
from goqueue.service.publish_once import DeduplicatedPublish
from goqueue.service.router import Router
from goqueue.service.scattering import Scattering
from goqueue.service.topics import Topics

_PLACE: Final = re.compile(r"messages\[(\d+)\]")


class RoutedPublish:
    """The verb of `Publish` that doors with messages in the open use."""

    def __init__(self, router: Router, topics: Topics) -> None:
        self._router = router
        self._topics = topics

    async def messages(self, command: PublishMessages) -> list[PublishResult]:
        """One result for each message, in order."""
        topic = await self._topics.for_publish(command.topic, command.caller)
        messages, errors = _placed(topic, command.messages)
        shards = self._router.shards

        async def send(node: int, places: list[int], left_s: float) -> Sequence[PublishResult]:
            part = replace(command, messages=[messages[place] for place in places], is_placed=True)
            found: list[PublishResult] = await self._router.ask(node, Publish, "messages", [part], {}, left_s)
            return [_renumbered(one, places) for one in found]

        def leader_of(place: int) -> int:
            return shards.leader_of(TopicPartition(topic.name, messages[place].partition or 0))

        scattering = Scattering[StoredAt | ScheduledAt](self._router, leader_of, send, repeatable=False)
        results: dict[int, PublishResult] = {**errors, **await scattering.run(messages)}
        return [results[place] for place in range(len(command.messages))]


def _placed(topic: Topic, messages: Sequence[InputMessage]) -> tuple[dict[int, InputMessage], dict[int, PublishResult]]:
    """Every message with its partition, and those that have none."""
    partitioner, count = topic.partitioner, len(topic.partitions)
    partitioner.begin_publish()
    placed, errors = dict[int, InputMessage](), dict[int, PublishResult]()
    for place, message in enumerate(messages):
        try:
            placed[place] = replace(message, partition=partitioner.choose(message.key, message.partition, count))
        except GoQueueError as error:
            error.field = f"messages[{place}].{error.field or 'value'}"
            errors[place] = error
    return placed, errors


def _renumbered(result: PublishResult, places: Sequence[int]) -> PublishResult:
    """An error names the message's place in the part that a node got; here it is told with its place in all."""
    if isinstance(result, GoQueueError) and result.field is not None:
        found = _PLACE.match(result.field)
        if found is not None and int(found[1]) < len(places):
            result.field = f"messages[{places[int(found[1])]}]{result.field[found.end() :]}"
    return result


class RoutedDeduplication:
    """Ids of a topic are known where its first partition is led."""

    def __init__(self, router: Router) -> None:
        self._router = router

    async def messages(self, command: PublishOnce) -> list[OnceResult]:
        found: list[OnceResult] = await self._ask(command.scope.topic, "messages", command)
        return found

    async def last_sequence(self, scope: DeduplicationScope) -> int:
        found: int = await self._ask(scope.topic, "last_sequence", scope)
        return found

    async def _ask(self, topic: str, verb: str, command: PublishOnce | DeduplicationScope) -> Any:
        first = TopicPartition(topic, 0)
        find = lambda: self._router.shards.leader_of(first)  # noqa: E731
        return await self._router.ask_leader(find, DeduplicatedPublish, verb, [command])
