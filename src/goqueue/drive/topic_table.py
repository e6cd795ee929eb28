"""The topics of a node: a record each in the metadata, and their open partitions.

A topic exists when its record does; partition directories appear with the first message. A deletion is first noted in
the record, then carried out, so that a crash in between is finished by the next start. Records that cannot be read are
reported and left alone, with their data.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Final

import msgspec

from goqueue.base.errors import GoQueueError, UnknownPartition
from goqueue.base.ids import Millis, TopicPartition
from goqueue.base.limits import OPENED_FIRST, OPENING_AT_ONCE, OPENING_SLOW
from goqueue.base.metadata import Change
from goqueue.base.names import INTERNAL, unified
from goqueue.base.topic_config import KAFKA_ONLY, TopicConfig, parse_overrides, resolve
from goqueue.core.cluster.records import SHARDS, ShardRecord, TopicRecord
from goqueue.core.cluster.shard_choice import AS_USUAL, Placing
from goqueue.core.partitioner import Partitioner
from goqueue.drive.carry_on import carry_on
from goqueue.drive.image_follower import ImageFollower
from goqueue.drive.partition import Partition
from goqueue.drive.partition_opener import LOGS, PartitionOpener, roll_rule
from goqueue.drive.topic_records import TopicRecords
from goqueue.drive.topic_trash import TRASH, TopicTrash, aside
from goqueue.log.home import unless_full
from goqueue.log.recovery import Recovered

logger = logging.getLogger(__name__)

_RETRY_S: Final = 0.02


class Topic:
    """A topic that is open."""

    __slots__ = ("config", "partitioner", "partitions", "record")

    def __init__(self, record: TopicRecord, config: TopicConfig, partitions: list[Partition]) -> None:
        self.record = record
        self.config = config
        self.partitions = partitions
        self.partitioner = Partitioner(config.partitioner)

    @property
    def name(self) -> str:
        return self.record.name

    @property
    def is_internal(self) -> bool:
        return self.record.name in INTERNAL

    def partition(self, number: int) -> Partition:
        if not 0 <= number < len(self.partitions):
            raise UnknownPartition(
                f"The topic {self.name!r} has partitions 0 to {len(self.partitions) - 1}, not {number}.",
                field="partition",
            )
        return self.partitions[number]


class TopicTable:
    """Loads, creates, changes and deletes. One change at a time."""

    def __init__(
        self,
        metadata: ImageFollower,
        opener: PartitionOpener,
        defaults: TopicConfig,
        own: Mapping[str, dict[str, str]],
        on_changed: Callable[[str | None], None],
        factor: int = 1,
    ) -> None:
        """`own` are the settings of the broker's own topics, by name: they have these, whatever their records say.

        `on_changed` is told after every change, with the name of a topic that is deleted. `factor` is how many
        replicas a topic of a cluster has that does not say.
        """
        self._on_changed = on_changed
        self._metadata = metadata
        self.records = TopicRecords(metadata, own.keys(), factor)
        self._opener = opener
        self._disk, self._offload = opener.disk, opener.offload
        self._defaults = defaults
        self._own = own
        self._topics: dict[str, Topic] = {}
        self._names: dict[str, str] = {}  # by id
        self._by_unified: dict[str, set[str]] = {}  # names that differ in `.` and `_` alone
        self._changing = asyncio.Lock()
        self._trash = TopicTrash(self._disk, opener.held, self._offload)

    def has_tenant(self, name: str) -> bool:
        """No name stands for whatever is of no tenant."""
        return not name or self._metadata.image.tenant(name) is not None

    def get(self, name: str) -> Topic | None:
        return self._topics.get(name)

    def is_coming(self, name: str, partition: int) -> bool:
        """The metadata has such a partition, and it is not open yet."""
        record, known = self._metadata.image.topic(name), self._topics.get(name)
        if record is None or record.deleting or not 0 <= partition < record.partitions:
            return False
        return known is None or partition >= len(known.partitions)

    def name_of(self, topic_id: str) -> str | None:
        return self._names.get(topic_id)

    def colliding(self, name: str) -> str | None:
        """Another topic whose name differs in `.` and `_` alone; Kafka's metrics cannot tell the two apart."""
        return next((one for one in sorted(self._by_unified.get(unified(name), ())) if one != name), None)

    def in_shard(self, shard: int) -> Iterator[tuple[Topic, Partition]]:
        """The partitions of a shard, with their topics."""
        for topic in self._topics.values():
            for number, partition in enumerate(topic.partitions):
                if topic.record.shard_of(number) == shard:
                    yield topic, partition

    def all(self) -> list[Topic]:
        """By name."""
        return [self._topics[name] for name in sorted(self._topics)]

    # --- start and stop ------------------------------------------------------------------------------------

    async def load(self) -> list[Recovered]:
        """Opens every topic; returns what each partition's recovery found."""
        await self._offload(self._make_directories)
        records = [record for record in self._metadata.image.topics() if _is_sane(record)]
        for record in records:
            if record.deleting:
                await self._carry_out_deletion(record)
        await self._throw_away_gone()
        topics = [await self._put_right(record) for record in records if not record.deleting]
        found = await self._open_all([self._new_topic(record) for record in topics])
        self._report_orphans()
        self._trash.empty()
        return found

    async def _throw_away_gone(self) -> None:
        """What this node has of topics that were deleted while it was away."""
        image = self._metadata.image
        if gone := {one for one in image.gone_topics() if image.topic_name(one) is None}:
            await self._offload(lambda: self._trash.throw_away_gone(gone))

    def _make_directories(self) -> None:
        for directory in (LOGS, TRASH):
            self._disk.make_dirs(directory)
        self._disk.sync_dir("")

    async def _put_right(self, record: TopicRecord) -> TopicRecord:
        """With other settings one of the broker's own topics would lose what the broker keeps in it."""
        own = self._own.get(record.name)
        if own is None:
            return record
        shards = self.records.own_shards(record.name)
        if record.overrides == own and record.partitions == len(shards):
            return record
        logger.warning(
            "settings of the broker's own topic put right",
            extra={"topic": record.name, "found": record.overrides, "partitions": record.partitions},
        )
        right = msgspec.structs.replace(record, overrides=dict(own), partitions=len(shards), shards=shards)
        return await self.records.write(right)

    async def create_own(self, name: str, new_id: str, now: Millis) -> None:
        """One of the broker's own topics, by the first start; of several nodes one makes it."""
        shards = self.records.own_shards(name)
        record = TopicRecord(name, new_id, len(shards), dict(self._own[name]), now, shards=shards)
        while await self.create(record) is None:
            await self.catch_up()
            if name in self._topics:
                break
            await asyncio.sleep(_RETRY_S)  # it is in the store, and not yet in this node's image

    def _report_orphans(self) -> None:
        for name in self._disk.names(LOGS):
            if name not in self._topics:
                logger.warning("no topic of that name, left alone", extra={"path": f"{LOGS}/{name}"})

    async def close(self) -> None:
        await self._trash.close()
        partitions = [partition for topic in self.all() for partition in topic.partitions]
        for partition in partitions:
            partition.close()
        # A log that was closed cleanly is not looked through again, so what is known of it has to be there by then.
        jobs = [(one.producers.snapshot_job(), one.log.close) for one in partitions]
        await self._offload(lambda: _close_logs(jobs))

    # --- changes -------------------------------------------------------------------------------------------

    async def create(
        self,
        record: TopicRecord,
        check: Callable[[str], object] = lambda name: None,
        placing: Placing = AS_USUAL,
    ) -> Topic | None:
        """The new topic, durable; None if the name is taken. `check` may refuse it, when no other is being made.

        Of the broker's own topics nothing is set aside: if their record cannot be read, what they hold still counts.
        """
        return await carry_on(self._create(record, check, placing))

    async def _create(self, record: TopicRecord, check: Callable[[str], object], placing: Placing) -> Topic | None:
        async with self._changing:
            if record.name in self._topics or self._metadata.image.topic(record.name) is not None:
                return None  # perhaps another node made it, and it is not open here yet
            check(record.name)  # and once more if another node was faster with something
            if record.name not in self._own:
                await self._offload(lambda: self._set_aside_orphan(record))
            written = await self.records.create(record, placing, check)
            if written is None:
                return None  # another node was first
            topic = self._new_topic(written)
            await self._open_all([topic])
            self._on_changed(None)
            return topic

    async def change(
        self, topic: Topic, decide: Callable[[TopicRecord], TopicRecord], placing: Placing = AS_USUAL
    ) -> None:
        """Makes new settings durable, then lets them hold; may add partitions. One change sees the one before it."""
        await carry_on(self._change(topic, decide, placing))

    async def _change(self, topic: Topic, decide: Callable[[TopicRecord], TopicRecord], placing: Placing) -> None:
        async with self._changing:
            await self._apply(topic, await self.records.change(topic.record, decide, placing))
            self._on_changed(None)

    async def _apply(self, topic: Topic, record: TopicRecord) -> None:
        config = resolve(record.overrides, self._defaults)
        if config.partitioner != topic.config.partitioner:
            topic.partitioner = Partitioner(config.partitioner)
        topic.record, topic.config = record, config
        for partition in topic.partitions:
            partition.log.roll_rule = roll_rule(config)
        await self._open_all([topic])

    def set_defaults(self, defaults: TopicConfig) -> None:
        """What topics leave unsaid; holds for those that are open too."""
        self._defaults = defaults
        for topic in self._topics.values():
            topic.config = resolve(topic.record.overrides, defaults)
            for partition in topic.partitions:
                partition.log.roll_rule = roll_rule(topic.config)

    async def delete(self, topic: Topic) -> None:
        """Returns when the topic cannot come back."""
        await carry_on(self._delete(topic))

    async def _delete(self, topic: Topic) -> None:
        async with self._changing:
            if self._topics.get(topic.name) is not topic:
                return
            await self.records.note_deletion(topic.record)
            self._forget(topic)
            await self._carry_out_deletion(topic.record)
            self._on_changed(topic.name)
            self._trash.empty()

    def _forget(self, topic: Topic) -> None:
        del self._topics[topic.name], self._names[topic.record.id]
        self._by_unified[unified(topic.name)].discard(topic.name)
        for partition in topic.partitions:
            self._opener.release(partition, aside(topic.record.id, partition.at.partition))

    def metadata_changed(self, change: Change) -> None:
        """Partitions are led as their shard is from now on."""
        if any(entry.key.startswith(SHARDS) for entry in change.puts):
            for topic in self._topics.values():
                for partition in topic.partitions:
                    partition.state.led_by(self._shard(topic, partition.at.partition))

    # --- what other nodes changed --------------------------------------------------------------------------

    async def catch_up(self) -> None:
        """Opens, changes and removes topics as the image says. One that fails keeps it from no other: the error is
        raised when all were tried."""
        async with self._changing:
            wanted = {record.name: record for record in self._metadata.image.topics() if _is_sane(record)}
            gone = [topic for name, topic in self._topics.items() if _is_over(wanted.get(name), topic.record)]
            await _each(partial(self._remove, topic) for topic in gone)
            await _each(partial(self._take_over, record) for record in wanted.values() if not record.deleting)

    async def _take_over(self, record: TopicRecord) -> None:
        topic = self._topics.get(record.name)
        if topic is None:
            await self._open_all([self._new_topic(record)])
        elif topic.record != record:
            await self._apply(topic, record)
        else:
            return
        self._on_changed(None)

    async def _remove(self, topic: Topic) -> None:
        self._forget(topic)
        await self._offload(lambda: self._trash.throw_away(topic.name, topic.record.id))
        self._on_changed(topic.name)
        self._trash.empty()

    def _shard(self, topic: Topic, partition: int) -> ShardRecord:
        return self._metadata.image.shard(topic.record.shard_of(partition))

    # --- partitions ----------------------------------------------------------------------------------------

    def _new_topic(self, record: TopicRecord) -> Topic:
        return Topic(record, resolve(record.overrides, self._defaults), [])

    async def _open_all(self, topics: Sequence[Topic]) -> list[Recovered]:
        """Opens the partitions that are not open yet. Several at a time only where the disk is slow: threads that do
        not wait for it wait for each other."""
        wanted = [
            (topic, number) for topic in topics for number in range(len(topic.partitions), topic.record.partitions)
        ]
        first, rest = wanted[:OPENED_FIRST], wanted[OPENED_FIRST:]
        opened, is_slow = await self._offload(partial(self._open_timed, first)) if first else ([], False)
        share = (-(-len(rest) // OPENING_AT_ONCE) if is_slow else len(rest)) or 1
        shares = [rest[begin : begin + share] for begin in range(0, len(rest), share)]
        more = await asyncio.gather(*(self._offload(partial(self._open_share, one)) for one in shares))
        found: list[Recovered] = []
        for (topic, number), (partition, recovered) in zip(wanted, chain(opened, *more), strict=True):
            self._opener.adopt(partition)
            partition.state.led_by(self._shard(topic, number))  # which may have changed while it was opened
            topic.partitions.append(partition)
            found.append(recovered)
        for topic in topics:
            self._topics[topic.name] = topic
            self._names[topic.record.id] = topic.name
            self._by_unified.setdefault(unified(topic.name), set()).add(topic.name)
        return found

    def _open_timed(self, share: Sequence[tuple[Topic, int]]) -> tuple[list[tuple[Partition, Recovered]], bool]:
        """And whether most of the time was spent waiting."""
        monotonic_ns = self._opener.clock.monotonic_ns  # one that a simulation can hold still
        began, worked = monotonic_ns(), time.thread_time_ns()
        opened = self._open_share(share)
        return opened, monotonic_ns() - began > OPENING_SLOW * (time.thread_time_ns() - worked)

    def _open_share(self, share: Sequence[tuple[Topic, int]]) -> list[tuple[Partition, Recovered]]:
        return [self._open_one(topic, number) for topic, number in share]

    def _open_one(self, topic: Topic, number: int) -> tuple[Partition, Recovered]:
        at, shard = TopicPartition(topic.name, number), self._shard(topic, number)
        is_own = topic.is_internal  # what it holds counts, even if its record was lost and made anew
        return self._opener.open(at, "" if is_own else topic.record.id, shard, topic.config, is_own)

    # --- records -------------------------------------------------------------------------------------------

    def _set_aside_orphan(self, record: TopicRecord) -> None:
        """Data of unknown origin under the new topic's name must not become its messages."""
        if self._disk.names(f"{LOGS}/{record.name}"):
            aside = f"orphans/{record.name}-{record.created_ms}"
            logger.warning("files under a new topic's name set aside", extra={"path": aside})
            self._disk.make_dirs("orphans")
            self._disk.rename(f"{LOGS}/{record.name}", aside)
            for directory in ("", "orphans", LOGS):
                self._disk.sync_dir(directory)

    async def _carry_out_deletion(self, record: TopicRecord) -> None:
        await self._offload(lambda: self._trash.throw_away(record.name, record.id))
        await self.records.delete(record)


async def _each(works: Iterable[Callable[[], Awaitable[None]]]) -> None:
    """One after the other, whether those before failed or not."""
    failed: GoQueueError | OSError | None = None
    for work in works:
        try:
            await work()
        except (GoQueueError, OSError) as error:
            failed = error
    if failed is not None:
        raise failed


def _is_over(record: TopicRecord | None, known: TopicRecord) -> bool:
    """Deleted, or deleted and made again."""
    return record is None or record.deleting or record.id != known.id


def _close_logs(jobs: Sequence[tuple[Callable[[], None], Callable[[], None]]]) -> None:
    """Without room for the first note of a log the second is not written: the next start looks through it."""
    for note_producers, close in jobs:
        with unless_full():
            note_producers()
            close()


def _is_sane(record: TopicRecord) -> bool:
    """A record that was damaged or edited by hand must not lead to a crash later."""
    try:
        # What has no effect cannot do harm either, whatever an older version let somebody set.
        parse_overrides({name: text for name, text in record.overrides.items() if name not in KAFKA_ONLY})
    except GoQueueError:
        logger.error("not a topic record, left alone", extra={"topic": record.name})
        return False
    return True
