"""Topics: create, look at, change, delete."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from goqueue.api.topics import DamagedOffsets, PartitionInfo, TopicInfo, TopicSummary
from goqueue.base.access import AclOperation, AclResource, ResourceKind
from goqueue.base.clock import Clock
from goqueue.base.commands import Caller
from goqueue.base.entropy import Entropy, new_uuid
from goqueue.base.errors import InternalTopic, InvalidField, InvalidName, InvalidPartitions, TopicExists, UnknownTopic
from goqueue.base.limits import PARTITIONS_PER_TOPIC_MAX
from goqueue.base.names import check_name, is_internal
from goqueue.base.settings import TopicSettings
from goqueue.base.tenants import tenant_of
from goqueue.base.topic_config import CONFIG_KEYS, DEAD_LETTER_TOPIC, KAFKA_ONLY, as_text, parse_overrides
from goqueue.core.cluster.records import TopicRecord
from goqueue.core.cluster.shard_choice import AS_USUAL, Placing
from goqueue.drive.partition import Partition
from goqueue.drive.topic_table import Topic, TopicTable
from goqueue.log.space import SpaceGuard
from goqueue.service.hooks import Hooks


class Topics:
    """The verbs."""

    def __init__(
        self,
        table: TopicTable,
        settings: TopicSettings,
        space: SpaceGuard,
        clock: Clock,
        entropy: Entropy,
        hooks: Hooks,
    ) -> None:
        self._table = table
        self._settings = settings
        self._space = space
        self._clock = clock
        self._entropy = entropy
        self._hooks = hooks

    # --- look ----------------------------------------------------------------------------------------------

    def require(self, name: str) -> Topic:
        topic = self._table.get(name)
        if topic is None:
            check_name(name, field="topic")
            raise UnknownTopic(f"There is no topic {name!r}; create it first.", field="topic")
        return topic

    def require_users(self, name: str, field: str = "topic") -> Topic:
        """The topic, if it is one of the users'. Whatever changes a topic or writes to it asks here."""
        topic = self.require(name)
        if topic.is_internal:
            raise _own(name, field)
        return topic

    def find(self, name: str) -> Topic | None:
        return self._table.get(name)

    def allows(self, caller: Caller, operation: AclOperation, name: str) -> bool:
        """Whether the caller may do that to a topic; for verbs that find out on the way which topics they concern."""
        access = self._hooks.access
        return access is None or access.allows(caller, operation, AclResource(ResourceKind.TOPIC, name))

    def is_coming(self, name: str, partition: int) -> bool:
        """The metadata has such a partition, and this node is about to open it."""
        return self._table.is_coming(name, partition)

    def all(self) -> list[Topic]:
        """The users' topics, by name."""
        return [topic for topic in self._table.all() if not topic.is_internal]

    def everything(self) -> list[Topic]:
        """The same and the broker's own."""
        return self._table.all()

    def name_of(self, topic_id: str) -> str | None:
        """The name of the topic with that id."""
        return self._table.name_of(topic_id)

    @property
    def kafka_may_create(self) -> bool:
        return self._settings.auto_create != "off"

    async def for_publish(self, name: str, caller: Caller) -> Topic:
        """The topic; made now if it does not exist and the node is told to do that."""
        topic = self._table.get(name)
        if topic is None and self._settings.auto_create == "all":
            if self._hooks.access is not None:
                self._hooks.access.admit(caller, AclOperation.CREATE, AclResource(ResourceKind.TOPIC, name))
            try:
                return await self._create(name, None, {})
            except TopicExists:
                pass  # somebody was faster
        return self.require_users(name)

    def partitions(self, name: str, among: Sequence[int]) -> list[PartitionInfo]:
        """What is in these, of which this node leads each."""
        topic = self.require(name)
        for number in among:
            topic.partition(number).check_led()
        return [_partition_view(topic.partition(number)) for number in among]

    def led(self) -> list[TopicSummary]:
        """The same as `list`, of what this node leads."""
        return [_summary(topic, [one for one in topic.partitions if one.is_led]) for topic in self.all()]

    def list(self) -> list[TopicSummary]:
        """The users' topics; the broker's own are left out."""
        return [_summary(topic) for topic in self.all()]

    def describe(self, name: str) -> TopicInfo:
        return _view(self.require(name))

    def require_readable(self, name: str) -> Topic:
        """The users' topic, for who may read it."""
        return self.require_users(name)

    def settings_of(self, name: str) -> TopicInfo:
        """The same, for who may look at settings."""
        return _view(self.require(name))

    # --- change --------------------------------------------------------------------------------------------

    async def create(
        self,
        name: str,
        partitions: int | None,
        config: Mapping[str, object],
        may_collide: bool = False,
        placing: Placing = AS_USUAL,
    ) -> TopicInfo:
        """With `may_collide` another topic's name may differ in `.` and `_` alone: names that the broker chose."""
        return _view(await self._create(name, partitions, config, may_collide, placing))

    async def _create(
        self,
        name: str,
        partitions: int | None,
        config: Mapping[str, object],
        may_collide: bool = False,
        placing: Placing = AS_USUAL,
    ) -> Topic:
        count = self.check_new(name, partitions, config, may_collide)
        record = TopicRecord(name, new_uuid(self._entropy), count, parse_overrides(config), self._clock.now_ms())
        self._table.records.check_placing(record, placing)
        self._space.check()

        def check(_: str) -> None:
            self._check_tenant(name)
            self._check_limits(name, 1, count)
            if not may_collide:
                self._check_collision(name)

        topic = await self._table.create(record, check, placing)
        if topic is None:
            raise TopicExists(f"The topic {name!r} exists already.", field="name")
        await self._announce(topic)
        return topic

    def check_new(
        self, name: str, partitions: int | None, config: Mapping[str, object], may_collide: bool = False
    ) -> int:
        """Raises for what could not be created; returns the number of partitions it would have."""
        check_name(name)
        self._check_tenant(name)
        if is_internal(name):
            raise _own(name, "name")
        count = _check_count(self._settings.partitions if partitions is None else partitions)
        self.check_config(config)
        _check_dead_letters(name, config)
        if self._table.get(name) is not None:
            raise TopicExists(f"The topic {name!r} exists already.", field="name")
        if not may_collide:
            self._check_collision(name)
        return count

    def check_placing(self, name: str, partitions: int, config: Mapping[str, object], placing: Placing) -> int:
        """Raises for what could not be placed; returns the number of replicas that the topic would have."""
        return self._table.records.check_placing(TopicRecord(name, "", partitions, parse_overrides(config), 0), placing)

    def _check_tenant(self, name: str) -> None:
        if not self._table.has_tenant(tenant_of(name)):
            raise InvalidName(f"The name {name!r} is one of a tenant, and there is no such tenant.", field="name")

    def _check_limits(self, name: str, topics: int, partitions: int) -> None:
        if self._hooks.limits is not None:
            self._hooks.limits.grow(name, topics, partitions)

    def _check_collision(self, name: str) -> None:
        if (other := self._table.colliding(name)) is not None:
            raise InvalidName(
                f"The topic {name!r} collides with {other!r}: names have to differ in more than '.' and '_'.",
                field="name",
            )

    def check_config(self, config: Mapping[str, object | None]) -> None:
        self._parse({key: value for key, value in config.items() if value is not None})

    def _parse(self, config: Mapping[str, object]) -> dict[str, str]:
        parsed = parse_overrides(config)
        if is_internal(target := parsed.get(DEAD_LETTER_TOPIC, "")):
            raise _own(target, "config")
        return parsed

    async def alter(
        self,
        name: str,
        config: Mapping[str, object | None],
        partitions: int | None,
        placing: Placing = AS_USUAL,
    ) -> TopicInfo:
        """Sets what has a value, takes back to the default what is None, adds partitions."""
        topic = self.require_users(name)
        changed = self._parse({key: value for key, value in config.items() if value is not None})
        _check_dead_letters(name, changed)
        if unknown := [key for key in config if key not in CONFIG_KEYS and key not in KAFKA_ONLY]:
            parse_overrides(dict.fromkeys(unknown, ""))

        def decide(before: TopicRecord) -> TopicRecord:
            kept = {key: text for key, text in before.overrides.items() if key not in config}
            return msgspec.structs.replace(self._widened(before, partitions), overrides={**kept, **changed})

        self._table.records.check_placing(decide(topic.record), placing)
        before = len(topic.partitions)
        await self._table.change(topic, decide, placing)
        if len(topic.partitions) > before:
            await self._announce(topic)
        return _view(topic)

    def check_partitions(self, name: str, partitions: int, placing: Placing = AS_USUAL) -> None:
        """Raises for partitions that could not be added."""
        self._table.records.check_placing(self._widened(self.require_users(name).record, partitions), placing)

    def _widened(self, before: TopicRecord, partitions: int | None) -> TopicRecord:
        count = _check_more(before.partitions, partitions)
        if count > before.partitions:
            self._check_limits(before.name, 0, count - before.partitions)
        return msgspec.structs.replace(before, partitions=count)

    async def _announce(self, topic: Topic) -> None:
        if self._hooks.announce is not None:
            await self._hooks.announce(topic)

    async def delete(self, name: str) -> None:
        await self._table.delete(self.require_users(name))


def _check_dead_letters(topic: str, config: Mapping[str, object]) -> None:
    """They stay in the topic's tenant."""
    target = config.get(DEAD_LETTER_TOPIC)
    if target and tenant_of(str(target)) != tenant_of(topic):
        raise InvalidField("Dead letters go to a topic of the same tenant.", field="config")


def _own(name: str, field: str) -> InternalTopic:
    return InternalTopic(
        f"{name} is the broker's own: it can be read, but only the broker writes to it and changes it. "
        "Name a topic of yours.",
        field=field,
    )


def _check_count(partitions: int) -> int:
    if not 1 <= partitions <= PARTITIONS_PER_TOPIC_MAX:
        raise InvalidPartitions(
            f"A topic has 1 to {PARTITIONS_PER_TOPIC_MAX} partitions, not {partitions}.", field="num_partitions"
        )
    return partitions


def _check_more(before: int, partitions: int | None) -> int:
    count = before if partitions is None else _check_count(partitions)
    if count < before:
        raise InvalidPartitions(
            f"The topic has {before} partitions; they can be added to, not taken away.", field="num_partitions"
        )
    return count


def _summary(topic: Topic, among: Sequence[Partition] | None = None) -> TopicSummary:
    partitions = topic.partitions if among is None else among
    return TopicSummary(
        topic.name,
        topic.record.id,
        len(topic.partitions),
        sum(partition.message_count for partition in partitions),
        sum(partition.size_bytes for partition in partitions),
        topic.record.created_ms,
    )


def _view(topic: Topic) -> TopicInfo:
    summary = _summary(topic)
    return TopicInfo(
        name=summary.name,
        id=summary.id,
        num_partitions=summary.num_partitions,
        created_ms=summary.created_ms,
        messages=summary.messages,
        size_bytes=summary.size_bytes,
        config={**as_text(topic.config), **_without_effect(topic)},
        overrides=topic.record.overrides,
        partitions=[_partition_view(partition) for partition in topic.partitions],
        replication_factor=min((one.shard.wanted for one in topic.partitions), default=1),
    )


def _without_effect(topic: Topic) -> dict[str, str]:
    return {name: text for name, text in topic.record.overrides.items() if name in KAFKA_ONLY}


def _partition_view(partition: Partition) -> PartitionInfo:
    return PartitionInfo(
        partition=partition.at.partition,
        start_offset=partition.start_offset,
        end_offset=partition.end_offset,
        high_watermark=partition.high_watermark,
        messages=partition.message_count,
        size_bytes=partition.size_bytes,
        segments=partition.segment_count,
        leader=partition.leader,
        leader_epoch=partition.leader_epoch,
        writable=partition.failure is None,
        damaged=[DamagedOffsets(first, last) for first, last in partition.damaged_ranges()],
    )
