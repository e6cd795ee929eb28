"""How far groups came: committed offsets and when they expire."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from goqueue.base.errors import GoQueueError, UnknownPartition, UnknownTopic
from goqueue.base.ids import Millis, TopicPartition
from goqueue.core.groups.errors import OffsetMetadataTooLarge
from goqueue.core.groups.records import OffsetCommitted, OffsetDeleted
from goqueue.core.groups.replies import GroupStep, OffsetResult
from goqueue.core.groups.requests import OffsetCommit
from goqueue.core.groups.settings import GroupSettings


class GroupOffsets:
    """Offsets of all groups, by group and partition. They change by `apply` alone."""

    __slots__ = ("_groups", "_settings")

    def __init__(self, settings: GroupSettings) -> None:
        self._settings = settings
        self._groups: dict[str, dict[TopicPartition, OffsetCommitted]] = {}

    def apply(self, record: OffsetCommitted | OffsetDeleted) -> None:
        at = TopicPartition(record.topic, record.partition)
        if isinstance(record, OffsetCommitted):
            self._groups.setdefault(record.group, {})[at] = record
            return
        kept = self._groups.get(record.group, {})
        kept.pop(at, None)
        if not kept:
            self._groups.pop(record.group, None)

    def groups(self) -> Iterable[str]:
        return self._groups

    def count(self) -> int:
        """Groups that have offsets."""
        return len(self._groups)

    def of(self, group: str) -> Mapping[TopicPartition, OffsetCommitted]:
        return self._groups.get(group, {})

    def commit(
        self, group: str, offsets: Iterable[OffsetCommit], topics: Mapping[str, int] | None, now: Millis, out: GroupStep
    ) -> list[OffsetResult]:
        """Writes what is right, and says what is wrong with the rest. `topics` None does not check them."""
        results: list[OffsetResult] = []
        for each in offsets:
            error = self._mistake(each, topics)
            results.append(OffsetResult(each.topic, each.partition, error))
            if error is None:
                out.records.append(self._committed(group, each, now))
        return results

    def delete(self, group: str, at: Iterable[TopicPartition], out: GroupStep) -> None:
        """Forgets what is there of these."""
        for each in sorted(set(at).intersection(self.of(group))):
            out.records.append(OffsetDeleted(group, each.topic, each.partition))

    def delete_topic(self, topic: str, out: GroupStep) -> None:
        for group in sorted(self._groups):
            self.delete(group, [at for at in self.of(group) if at.topic == topic], out)

    def expired(
        self, group: str, idle_since: Millis | None, live_topics: frozenset[str] | None, now: Millis
    ) -> Iterator[TopicPartition]:
        """What is past its time. An offset lives while members read its topic (`live_topics`; None: all topics), and
        then for the retention, from its commit or, in a group without members, from when that became so."""
        for at, record in self.of(group).items():
            if live_topics is None or at.topic in live_topics:
                continue
            ends = max(record.commit_ms, idle_since or 0) + self._settings.offsets_retention_ms
            if (record.expire_ms if record.expire_ms >= 0 else ends) <= now:
                yield at

    def _mistake(self, commit: OffsetCommit, topics: Mapping[str, int] | None) -> GoQueueError | None:
        if topics is not None and commit.topic not in topics:
            return UnknownTopic(f"No topic {commit.topic!r}.", field="topic")
        if topics is not None and not 0 <= commit.partition < topics[commit.topic]:
            return UnknownPartition(f"Topic {commit.topic!r} has no partition {commit.partition}.", field="partition")
        return self._too_large(commit)

    def check_metadata(self, offsets: Iterable[OffsetCommit]) -> None:
        """Raises if there is too much text beside one of them."""
        for each in offsets:
            if (error := self._too_large(each)) is not None:
                raise error

    def _too_large(self, commit: OffsetCommit) -> OffsetMetadataTooLarge | None:
        most = self._settings.offset_metadata_bytes_max
        if len(commit.metadata.encode()) <= most:
            return None
        return OffsetMetadataTooLarge(f"The text beside an offset is over {most} bytes; shorten it.", field="metadata")

    def _committed(self, group: str, commit: OffsetCommit, now: Millis) -> OffsetCommitted:
        offset, leader_epoch, metadata = commit.offset, commit.leader_epoch, commit.metadata
        return OffsetCommitted(group, commit.topic, commit.partition, offset, leader_epoch, metadata, now)
