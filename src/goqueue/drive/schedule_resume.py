"""What a start has to finish before it fires anything: writes in two places of which the last run made only one."""

from __future__ import annotations

from typing import Final

from goqueue.base.ids import Millis
from goqueue.core.schedule.records import EntryEnded, Fired
from goqueue.drive.offload import Offload
from goqueue.drive.schedule_entries import Entries
from goqueue.drive.schedule_firing import DueBatch
from goqueue.drive.schedule_index import Due
from goqueue.drive.schedule_recovery import already_in, came, missing_of
from goqueue.drive.topic_table import TopicTable

_OVERDUE: Final = 1_000


async def discard_unconfirmed(entries: Entries, offload: Offload) -> None:
    """A producer's batch was stored in two places; where the second write is missing, the first one is void."""
    for one in await offload(entries.index.unsure):
        partition = entries.partition_of(one.topic_id, one.partition)
        if partition is None:
            continue
        if await offload(lambda one=one, partition=partition: came(one.origin, partition)):  # type: ignore[misc]
            entries.watch([one.offset], partition, one.origin.offset + 1)
            continue
        found = await entries.find(one.topic_id, one.partition, one.offset)
        if isinstance(found, Due):
            entries.end([found], "cancelled")
    await entries.pending.flush()


async def resume_firings(entries: Entries, table: TopicTable, now: Millis, offload: Offload) -> None:
    """Appends what is missing of firings that were under way."""
    for offset, firing in await offload(entries.index.firings):
        partition = entries.partition_of(firing.topic_id, firing.partition)
        topic = table.get(table.name_of(firing.topic_id) or "")
        if partition is None or topic is None:
            place = (firing.topic_id, firing.partition, now)
            entries.note(*(EntryEnded(one, *place, "cancelled", now) for one, _ in firing.entries), Fired(offset))
            continue
        missing = set(await offload(lambda f=firing, p=partition: missing_of(f, p)))  # type: ignore[misc]
        offsets = [entry for entry, _ in firing.entries]
        read = await offload(lambda o=offsets: entries.log.read_entries(o, 1 << 62))  # type: ignore[misc]
        shot = DueBatch(topic, partition, [], offset=offset)
        for entry_offset, count in firing.entries:
            entry = read[entry_offset]
            if entry is None:
                continue  # its tombstone is there already
            due = Due(entry_offset, entry.due_ms, firing.topic_id, firing.partition, count)
            if await entries.find(due.topic_id, due.partition, due.offset) is None:
                shot.ends.append(due)
                entries.firings.under_way[entry_offset] = due
            if (entry_offset, count) in missing:
                shot.members.append((due, entry))
        if shot.members:
            entries.firings.send(shot)
        else:
            shot.end_offset = partition.log.end_offset
            entries.firings.await_safety(shot)


async def find_duplicates(entries: Entries, now: Millis, offload: Offload) -> None:
    """Overdue entries whose messages are in the log already: a power cut took the firing and left the messages."""
    overdue = await offload(lambda: entries.index.window(0, now, _OVERDUE))
    by_place: dict[tuple[str, int], list[Due]] = {}
    read = await entries.payloads([due.offset for due in overdue])
    for due in overdue:
        if (entry := read.get(due.offset)) is None or entry.repeat is not None:
            continue
        by_place.setdefault((due.topic_id, due.partition), []).append(due)
    for (topic_id, number), dues in by_place.items():
        partition = entries.partition_of(topic_id, number)
        if partition is not None:
            there = await offload(lambda p=partition, d=dues: already_in(p, d))  # type: ignore[misc]
            found = [due for due in dues if due.offset in there]
            if found:
                entries.end(found, "delivered")
    await entries.pending.flush()
