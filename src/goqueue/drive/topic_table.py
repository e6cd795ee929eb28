"""The topics of a node: a small durable record each, and their open partitions.

A topic exists when its record does; partition directories appear with the first message. A deletion is first noted in
the record, then carried out, so that a crash in between is finished by the next start. Records that cannot be read are
reported and left alone, with their data.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import msgspec

from goqueue.base.errors import GoQueueError, UnknownPartition
from goqueue.base.ids import Millis, TopicPartition
from goqueue.base.names import check_name, unified
from goqueue.base.topic_config import KAFKA_ONLY, TopicConfig, parse_overrides, resolve
from goqueue.core.partitioner import Partitioner
from goqueue.drive.offload import Offload
from goqueue.drive.partition import Partition
from goqueue.drive.partition_opener import LOGS, PartitionOpener, roll_rule
from goqueue.log.crc_json import decode_crc_json, encode_crc_json
from goqueue.log.disk import Disk
from goqueue.log.home import refused_when_full, unless_full
from goqueue.log.recovery import Recovered

logger = logging.getLogger(__name__)

RECORDS: Final = "topics"
# The names that Kafka keeps for itself, and ours.
INTERNAL: Final = frozenset(
    {
        "__consumer_offsets",
        "__transaction_state",
        "__share_group_state",
        "__cluster_metadata",
        "__goqueue_schedule",
        "__goqueue_deliveries",
        "__goqueue_schemas",
    }
)
TRASH: Final = "trash"
_SUFFIX: Final = ".topic"
_DELETING: Final = ".deleting"


class StoredTopic(msgspec.Struct, frozen=True):
    """What is durable about a topic."""

    name: str
    id: str
    partitions: int
    overrides: dict[str, str]
    created_ms: Millis
    deleting: bool = False


class Topic:
    """A topic that is open."""

    __slots__ = ("config", "partitioner", "partitions", "record")

    def __init__(self, record: StoredTopic, config: TopicConfig, partitions: list[Partition]) -> None:
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
        disk: Disk,
        opener: PartitionOpener,
        offload: Offload,
        defaults: TopicConfig,
        own: Mapping[str, dict[str, str]],
    ) -> None:
        """`own` are the settings of the broker's own topics, by name: they have these, whatever their records say."""
        self.on_changed: Callable[[str | None], None] = lambda deleted: None  # told after every change
        self._disk = disk
        self._opener = opener
        self._offload = offload
        self._defaults = defaults
        self._own = own
        self._topics: dict[str, Topic] = {}
        self._names: dict[str, str] = {}  # by id
        self._by_unified: dict[str, set[str]] = {}  # names that differ in `.` and `_` alone
        self._changing = asyncio.Lock()
        self._emptying: set[asyncio.Task[None]] = set()

    def get(self, name: str) -> Topic | None:
        return self._topics.get(name)

    def name_of(self, topic_id: str) -> str | None:
        return self._names.get(topic_id)

    def colliding(self, name: str) -> str | None:
        """Another topic whose name differs in `.` and `_` alone; Kafka's metrics cannot tell the two apart."""
        return next((one for one in sorted(self._by_unified.get(unified(name), ())) if one != name), None)

    def all(self) -> list[Topic]:
        """By name."""
        return [self._topics[name] for name in sorted(self._topics)]

    # --- start and stop ------------------------------------------------------------------------------------

    async def load(self) -> list[Recovered]:
        """Opens every topic on disk; returns what each partition's recovery found."""
        await self._offload(self._make_directories)
        found: list[Recovered] = []
        for record in await self._offload(self._read_records):
            if record.deleting:
                await self._offload(lambda record=record: self._carry_out_deletion(record))  # type: ignore[misc]
            else:
                found += await self._open(record)
        self._report_orphans()
        self._empty_trash()
        return found

    def _make_directories(self) -> None:
        for directory in (RECORDS, LOGS, TRASH):
            self._disk.make_dirs(directory)
        self._disk.sync_dir("")

    def _read_records(self) -> list[StoredTopic]:
        records: list[StoredTopic] = []
        for file in self._disk.names(RECORDS):
            if file.endswith(_SUFFIX + ".tmp"):
                self._disk.remove(f"{RECORDS}/{file}")  # a write that a crash interrupted
                continue
            record = decode_crc_json(self._disk.read_file(f"{RECORDS}/{file}"), StoredTopic)
            names = ("", "") if record is None else (record.name + _SUFFIX, record.name + _DELETING)
            if record is None or file not in names or not _is_sane(record):
                logger.error("not a topic record, left alone", extra={"path": f"{RECORDS}/{file}"})
            else:
                is_gone = record.deleting or file == names[1]
                records.append(self._put_right(msgspec.structs.replace(record, deleting=is_gone)))
        return records

    def _put_right(self, record: StoredTopic) -> StoredTopic:
        """With other settings one of the broker's own topics would lose what the broker keeps in it."""
        own = self._own.get(record.name)
        if own is None or (record.overrides == own and record.partitions == 1):
            return record
        logger.warning(
            "settings of the broker's own topic put right",
            extra={"topic": record.name, "found": record.overrides, "partitions": record.partitions},
        )
        right = msgspec.structs.replace(record, overrides=dict(own), partitions=1)
        self._write(right)
        return right

    def _report_orphans(self) -> None:
        for name in self._disk.names(LOGS):
            if name not in self._topics:
                logger.warning("no topic of that name, left alone", extra={"path": f"{LOGS}/{name}"})

    async def close(self) -> None:
        for task in list(self._emptying):
            await task
        partitions = [partition for topic in self.all() for partition in topic.partitions]
        for partition in partitions:
            partition.close()
        # A log that was closed cleanly is not looked through again, so what is known of it has to be there by then.
        jobs = [(one.producers.snapshot_job(), one.log.close) for one in partitions]
        await self._offload(lambda: _close_logs(jobs))

    # --- changes -------------------------------------------------------------------------------------------

    async def create(self, record: StoredTopic, check: Callable[[str], object] = lambda name: None) -> Topic | None:
        """The new topic, durable; None if the name is taken. `check` may refuse it, when no other is being made.

        Of the broker's own topics nothing is set aside: if their record cannot be read, what they hold still counts.
        """
        async with self._changing:
            if record.name in self._topics:
                return None
            check(record.name)
            if record.name not in self._own:
                await self._offload(lambda: self._set_aside_orphan(record))
            await self._offload(lambda: self._write(record))
            await self._open(record)
            self.on_changed(None)
            return self._topics[record.name]

    async def change(self, topic: Topic, decide: Callable[[StoredTopic], StoredTopic]) -> None:
        """Makes new settings durable, then lets them hold; may add partitions. One change sees the one before it."""
        async with self._changing:
            record = decide(topic.record)
            await self._offload(lambda: self._write(record))
            config = resolve(record.overrides, self._defaults)
            if config.partitioner != topic.config.partitioner:
                topic.partitioner = Partitioner(config.partitioner)
            topic.record, topic.config = record, config
            for partition in topic.partitions:
                partition.log.roll_rule = roll_rule(config)
            await self._open_partitions(topic, range(len(topic.partitions), record.partitions))
            self.on_changed(None)

    def set_defaults(self, defaults: TopicConfig) -> None:
        """What topics leave unsaid; holds for those that are open too."""
        self._defaults = defaults
        for topic in self._topics.values():
            topic.config = resolve(topic.record.overrides, defaults)
            for partition in topic.partitions:
                partition.log.roll_rule = roll_rule(topic.config)

    async def delete(self, topic: Topic) -> None:
        """Returns when the topic cannot come back."""
        async with self._changing:
            if self._topics.get(topic.name) is not topic:
                return
            gone = msgspec.structs.replace(topic.record, deleting=True)
            await self._offload(lambda: self._note_deletion(gone))
            del self._topics[topic.name], self._names[topic.record.id]
            self._by_unified[unified(topic.name)].discard(topic.name)
            for partition in topic.partitions:
                self._opener.release(partition)
            await self._offload(lambda: self._carry_out_deletion(gone))
            self.on_changed(topic.name)
            self._empty_trash()

    async def _open(self, record: StoredTopic) -> list[Recovered]:
        topic = Topic(record, resolve(record.overrides, self._defaults), [])
        found = await self._open_partitions(topic, range(record.partitions))
        self._topics[record.name] = topic
        self._names[record.id] = record.name
        self._by_unified.setdefault(unified(record.name), set()).add(record.name)
        return found

    async def _open_partitions(self, topic: Topic, numbers: range) -> list[Recovered]:
        def open_all() -> list[tuple[Partition, Recovered]]:
            own = topic.is_internal
            return [self._opener.open(TopicPartition(topic.name, number), topic.config, own) for number in numbers]

        opened = await self._offload(open_all)
        for partition, _ in opened:
            self._opener.adopt(partition)
            topic.partitions.append(partition)
        return [found for _, found in opened]

    # --- files ---------------------------------------------------------------------------------------------

    def _write(self, record: StoredTopic) -> None:
        """`DiskFull` if there is no room, and then the record is as before."""
        with refused_when_full():
            self._disk.write_file(f"{RECORDS}/{record.name}{_SUFFIX}", encode_crc_json(record))

    def _note_deletion(self, gone: StoredTopic) -> None:
        """By another name, which needs no room: who deletes a topic may do it because the disk is full."""
        self._disk.rename(f"{RECORDS}/{gone.name}{_SUFFIX}", f"{RECORDS}/{gone.name}{_DELETING}")
        self._disk.sync_dir(RECORDS)

    def _set_aside_orphan(self, record: StoredTopic) -> None:
        """Data of unknown origin under the new topic's name must not become its messages."""
        if self._disk.names(f"{LOGS}/{record.name}"):
            aside = f"orphans/{record.name}-{record.created_ms}"
            logger.warning("files under a new topic's name set aside", extra={"path": aside})
            self._disk.make_dirs("orphans")
            self._disk.rename(f"{LOGS}/{record.name}", aside)
            for directory in ("", "orphans", LOGS):
                self._disk.sync_dir(directory)

    def _carry_out_deletion(self, record: StoredTopic) -> None:
        if self._disk.is_dir(f"{LOGS}/{record.name}"):
            self._disk.remove_tree(f"{TRASH}/{record.id}")
            self._disk.rename(f"{LOGS}/{record.name}", f"{TRASH}/{record.id}")
            self._disk.sync_dir(LOGS)
        for suffix in (_SUFFIX, _DELETING):
            self._disk.remove(f"{RECORDS}/{record.name}{suffix}")
        self._disk.sync_dir(RECORDS)

    def _empty_trash(self) -> None:
        """Frees the space behind everybody's back."""

        async def empty() -> None:
            for name in self._disk.names(TRASH):
                await self._offload(lambda name=name: self._disk.remove_tree(f"{TRASH}/{name}"))  # type: ignore[misc]

        task = asyncio.create_task(empty())
        self._emptying.add(task)
        task.add_done_callback(self._emptying.discard)


def _close_logs(jobs: Sequence[tuple[Callable[[], None], Callable[[], None]]]) -> None:
    """Without room for the first note of a log the second is not written: the next start looks through it."""
    for note_producers, close in jobs:
        with unless_full():
            note_producers()
            close()


def _is_sane(record: StoredTopic) -> bool:
    """A record that was damaged or edited by hand must not lead out of the data directory or to a crash later."""
    try:
        check_name(record.name)
        # What has no effect cannot do harm either, whatever an older version let somebody set.
        parse_overrides({name: text for name, text in record.overrides.items() if name not in KAFKA_ONLY})
    except GoQueueError:
        return False
    return record.partitions >= 1
