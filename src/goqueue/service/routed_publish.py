"""Publish for all nodes: where each message goes is decided here, and the node that leads there stores it.

A message whose fate is unknown, because its node did not answer, is sent again with the number that it had: who leads
recognises it. Where that cannot be its publisher is told, and decides: see `service/repeatable_publish.py`, and for
messages that wait for their time `service/delayed_again.py`.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from msgspec.structs import replace

from goqueue.base.commands import (
    Acks,
    DeduplicationScope,
    InputMessage,
    OnceResult,
    PublishMessages,
    PublishOnce,
    PublishResult,
    ScheduledAt,
    StoredAt,
)
from goqueue.base.errors import GoQueueError, NotLeader
from goqueue.base.ids import TopicPartition
from goqueue.drive.topic_table import Topic
from goqueue.service.delayed_again import DelayedAgain
from goqueue.service.environment import Environment
from goqueue.service.producer_slots import ProducerSlots
from goqueue.service.publish import Publish
from goqueue.service.publish_once import DeduplicatedPublish
from goqueue.service.repeatable_publish import RepeatablePublish
from goqueue.service.router import Router
from goqueue.service.scattering import Scattering, Send
from goqueue.service.topics import Topics

Messages = Mapping[int, InputMessage]  # by their places in the request
Placed = StoredAt | ScheduledAt
Results = dict[int, PublishResult]

_TOKEN_BYTES: Final = 12
_PLACE: Final = re.compile(r"messages\[(\d+)\]")


class RoutedPublish:
    """The verbs of `Publish` that doors with messages in the open use."""

    def __init__(self, router: Router, topics: Topics, slots: ProducerSlots, environment: Environment) -> None:
        self._router = router
        self._topics = topics
        self._slots = slots
        self._clock, self._entropy = environment.clock, environment.entropy

    async def messages(self, command: PublishMessages) -> list[PublishResult]:
        """One result for each message, in order."""
        topic = await self._topics.for_publish(command.topic, command.caller)
        topic.partitioner.begin_publish()
        if self._router.shards.is_one_machine:
            leads, name = self._router.shards.leads, topic.name
            topic.partitioner.skip_to(lambda number: leads(TopicPartition(name, number)), len(topic.partitions))
            if self._are_here(topic, command.messages):
                found = await self._here(replace(command, topic=name, is_placed=True))
                if found is not None:
                    return found
        messages, errors = _placed(topic, command.messages)
        given = replace(command, topic=topic.name, messages=[])
        numbered = self._elsewhere(topic.name, messages) if command.acks is not Acks.NONE else {}
        repeatable = RepeatablePublish(self._slots, topic, numbered)
        await repeatable.begin()
        places = set(repeatable.places)
        others = [place for place in messages if place not in places]
        if not others:
            results = await self._again(given, messages, repeatable)
        else:
            delayed = DelayedAgain(topic, numbered, self._entropy.token(_TOKEN_BYTES).hex(), self._clock.now_ms())
            rest = [place for place in others if place not in set(delayed.places)]
            parts = await asyncio.gather(
                self._again(given, messages, repeatable),
                self._later(given, messages, delayed),
                self._once(given, messages, rest),
            )
            results = {place: result for part in parts for place, result in part.items()}
        return [results[place] if place in results else errors[place] for place in range(len(command.messages))]

    async def settle(self, name: str) -> None:
        """Where another node begins to lead meanwhile it has nothing that is not safe."""
        leader_of, count = self._router.shards.leader_of, len(self._topics.require(name).partitions)
        nodes = lambda: {leader_of(TopicPartition(name, number)) for number in range(count)}  # noqa: E731
        await self._router.ask_all(nodes, Publish, "settle", [name])

    def _is_here(self, topic: str, partition: int) -> bool:
        return self._router.shards.leads(TopicPartition(topic, partition))

    def _are_here(self, topic: Topic, messages: Sequence[InputMessage]) -> bool:
        choose, count = topic.partitioner.choose, len(topic.partitions)
        try:
            chosen = {choose(one.key, one.partition, count) for one in messages}
        except GoQueueError:
            return False
        return all(self._is_here(topic.name, partition) for partition in chosen)

    async def _here(self, command: PublishMessages) -> list[PublishResult] | None:
        """As a node that is alone does it. None if it does not lead there any more, and nothing is stored."""
        found: list[PublishResult] = await self._router.ask(self._router.shards.node, Publish, "messages", [command])
        return None if all(isinstance(one, NotLeader) for one in found) else found

    def _elsewhere(self, topic: str, messages: Messages) -> Messages:
        """Those that another node may have to be asked for twice. Nobody takes over from a process of this machine, so
        that what it stores itself is known here."""
        if not self._router.shards.is_one_machine:
            return messages
        return {place: one for place, one in messages.items() if not self._is_here(topic, one.partition or 0)}

    async def _again(self, given: PublishMessages, messages: Messages, repeatable: RepeatablePublish) -> Results:
        """Until it is stored, or the time is over."""

        async def send(node: int, places: list[int], left_s: float) -> Sequence[PublishResult]:
            part = replace(given, identities=repeatable.identities(places))
            try:
                found = await self._send(node, part, messages, places, left_s)
            except BaseException as error:
                repeatable.failed(places, error)
                raise
            return await repeatable.told(places, found)

        results: Results = {}
        try:
            results = await self._scatter(given, messages, send, repeatable=True).run(repeatable.places)
        finally:
            results = repeatable.end(results)
        return results

    async def _later(self, given: PublishMessages, messages: Messages, delayed: DelayedAgain) -> Results:
        """The same for messages that wait for their time."""

        async def send(node: int, places: list[int], left_s: float) -> Sequence[PublishResult]:
            try:
                found = await self._send(node, delayed.part(given, places), messages, places, left_s)
            except BaseException as error:
                delayed.failed(places, error)
                raise
            return delayed.told(places, found)

        if not delayed.places:
            return {}
        return delayed.end(await self._scatter(given, messages, send, repeatable=True).run(delayed.places))

    async def _once(self, given: PublishMessages, messages: Messages, places: Sequence[int]) -> Results:
        async def send(node: int, places: list[int], left_s: float) -> Sequence[PublishResult]:
            return await self._send(node, given, messages, places, left_s)

        return await self._scatter(given, messages, send, repeatable=False).run(places) if places else {}

    def _scatter(
        self, given: PublishMessages, messages: Messages, send: Send[Placed], repeatable: bool
    ) -> Scattering[Placed]:
        def leader_of(place: int) -> int:
            return self._router.shards.leader_of(TopicPartition(given.topic, messages[place].partition or 0))

        return Scattering[Placed](self._router, leader_of, send, repeatable)

    async def _send(
        self, node: int, given: PublishMessages, messages: Messages, places: list[int], left_s: float
    ) -> list[PublishResult]:
        part = replace(given, messages=[messages[place] for place in places], is_placed=True)
        found: list[PublishResult] = await self._router.ask(node, Publish, "messages", [part], {}, left_s)
        return [_renumbered(one, places) for one in found]


def _placed(topic: Topic, messages: Sequence[InputMessage]) -> tuple[dict[int, InputMessage], dict[int, PublishResult]]:
    """Every message with its partition, and those that have none."""
    partitioner, count = topic.partitioner, len(topic.partitions)
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
