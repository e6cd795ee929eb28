"""Queue views as a whole: opened for a group that takes messages, counted, passed over."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from goqueue.base.commands import Isolation
from goqueue.base.errors import InvalidGroup
from goqueue.base.ids import Millis, TopicPartition
from goqueue.base.leases import Begin, QueueCounts, Take
from goqueue.base.topic_config import TopicConfig
from goqueue.core.dead_letter import KEEPER
from goqueue.core.delivery.machine import Delivery
from goqueue.core.delivery.policy import Policy
from goqueue.core.delivery.records import ViewId
from goqueue.core.delivery.states import MessageState
from goqueue.drive.delivery_shards import DeliveryShards
from goqueue.drive.lane_reader import LaneReader
from goqueue.drive.partition import Partition
from goqueue.service.groups_anywhere import GroupsAnywhere
from goqueue.service.lane_readers import LaneReaders
from goqueue.service.positions import Positions
from goqueue.service.queue_rules import QueueRules
from goqueue.service.topics import Topics


class Source(msgspec.Struct, frozen=True):
    """One partition that a take draws from."""

    partition: Partition
    feed: LaneReader
    delivery: Delivery
    config: TopicConfig
    rules: QueueRules

    @property
    def policy(self) -> Policy:
        """As the settings are now."""
        return self.rules.policy(self.delivery.view)

    @property
    def lease_ms(self) -> Millis:
        """How long a lease is, unless who takes it says otherwise."""
        return self.config.queue_lease_ms

    @property
    def is_ordered(self) -> bool:
        """Whether messages of a key go in order."""
        return self.rules.is_ordered(self.config, self.delivery.view.group)


class QueueViews:
    def __init__(
        self,
        runner: DeliveryShards,
        topics: Topics,
        rules: QueueRules,
        feeds: LaneReaders,
        positions: Positions,
        groups: GroupsAnywhere | None = None,
    ) -> None:
        """`groups` are asked first where other nodes keep some of them."""
        self._groups = groups
        self._runner = runner
        self._topics = topics
        self._rules = rules
        self._feeds = feeds
        self._positions = positions

    # --- opening ---------------------------------------------------------------------------------------------

    @property
    def asks_first(self) -> bool:
        """Whether `learn` has anything to do: alone a node knows."""
        return self._groups is not None

    async def learn(self, group: str, partitions: Iterable[TopicPartition]) -> None:
        """What has to be known of the group before it takes from these."""
        if self._groups is not None:
            new = [at for at in partitions if self._runner.find(ViewId(group, at.topic, at.partition)) is None]
            await self._groups.learn(group, new)

    def sources(self, take: Take) -> list[Source]:
        """Where the take draws from; views that are new to the group are opened."""
        isolation = self._feeds.isolation(take.group)
        return [self._source(take, at, isolation) for at in take.partitions]

    def _source(self, take: Take, at: TopicPartition, isolation: Isolation) -> Source:
        topic = self._topics.require_users(at.topic)
        if take.group == KEEPER:
            raise InvalidGroup(f"The broker keeps the name {KEEPER} for itself.", field="group")
        partition = topic.partition(at.partition)
        delivery = self._open(take.group, partition, take.begin)
        return Source(partition, self._feeds.reader(partition, isolation), delivery, topic.config, self._rules)

    def _open(self, group: str, partition: Partition, begin: Begin) -> Delivery:
        view = ViewId(group, partition.at.topic, partition.at.partition)
        delivery = self._runner.find(view)
        if delivery is None:
            new = self._runner.view(view)
            self._runner.write(new, new.open_at(self._positions.begin(view, partition, begin)))
            delivery = self._runner.view(view)
        return delivery

    async def begin_since(self, group: str, partitions: Iterable[TopicPartition], since_ms: Millis) -> None:
        """A group that is new to these begins with what is not older."""
        partitions = list(partitions)
        await self.learn(group, partitions)
        for at in partitions:
            view = ViewId(group, at.topic, at.partition)
            if self._runner.find(view) is None:
                partition = self._topics.require_users(at.topic).partition(at.partition)
                end = partition.high_watermark  # before the look: what comes meanwhile is not older
                found = await partition.offset_at_time(since_ms)
                if self._runner.find(view) is None:
                    begin = self._positions.begin(view, partition, "latest", end if found is None else found[0])
                    new = self._runner.view(view)
                    self._runner.write(new, new.open_at(begin))

    def begin_at_end(self, group: str, partitions: Iterable[TopicPartition]) -> None:
        """A group that is new to these begins with what is published from now on."""
        for at in partitions:
            topic = self._topics.find(at.topic)
            if topic is not None and at.partition < len(topic.partitions):
                self._open(group, topic.partitions[at.partition], "latest")

    # --- rules -----------------------------------------------------------------------------------------------

    def policy(self, view: ViewId) -> Policy:
        return self._rules.policy(view)

    def is_strict(self, take: Take, sources: Sequence[Source]) -> bool:
        """Whether a higher priority always goes first."""
        if take.strict:
            return True
        return bool(sources) and self._topics.require(sources[0].partition.at.topic).config.queue_lanes == "strict"

    # --- administration --------------------------------------------------------------------------------------

    def counts(self, group: str, topic: str) -> QueueCounts:
        """How the group stands in a topic; a group that never took anything has all of it before it."""
        partitions = [one for one in self._topics.require(topic).partitions if self._runner.leads(one.at)]
        ready = sum(self._positions.backlog(ViewId(group, topic, one.at.partition), one) for one in partitions)
        in_flight = waiting = dead = 0
        for delivery in self._known(group, topic):
            in_flight += delivery.count(MessageState.LEASED)
            waiting += delivery.count(MessageState.WAITING)
            dead += delivery.count(MessageState.DEAD)
        return QueueCounts(ready, in_flight, waiting, dead)

    def held_of(self, group: str, topic: str) -> int:
        """How many messages of the topic are with consumers of the group now."""
        return sum(delivery.count(MessageState.LEASED) for delivery in self._known(group, topic))

    def _known(self, group: str, topic: str) -> Iterator[Delivery]:
        for partition in self._topics.require(topic).partitions:
            view = ViewId(group, topic, partition.at.partition)
            if self._runner.leads(partition.at) and (delivery := self._runner.find(view)) is not None:
                yield delivery

    async def skip_all(self, group: str, topic: str, among: Sequence[int] | None = None) -> None:
        """Everything up to now counts as done, in these partitions or in all."""
        known = self._topics.require_users(topic)
        partitions = known.partitions if among is None else [known.partition(number) for number in among]
        for partition in partitions:
            delivery = self._runner.view(ViewId(group, topic, partition.at.partition))
            self._runner.write(delivery, delivery.pass_to(partition.high_watermark))
            self._runner.moved(delivery.view)
        await self._runner.wait_durable(partition.at for partition in partitions)
