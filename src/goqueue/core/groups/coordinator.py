"""All groups of a node behind one face.

Every request comes with a ticket and is answered once, in the step of this call or of a later one. What is durable
changes by `apply` alone, which the host calls when a step's records are appended. Groups at work run ahead of that
while a step is decided; `revert` makes those anew whose records could not be written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from goqueue.base.errors import GoQueueError
from goqueue.base.ids import Millis, Offset, TopicPartition
from goqueue.core.groups import classic_join, rest, share
from goqueue.core.groups import heartbeat as kafka
from goqueue.core.groups import mixed as members
from goqueue.core.groups.commits import check_commit, check_delete, check_empty, check_in_transaction
from goqueue.core.groups.config import changed_config, check_room
from goqueue.core.groups.consumer import ConsumerGroup
from goqueue.core.groups.describe import live_topics
from goqueue.core.groups.errors import GroupSubscribed, UnknownMember
from goqueue.core.groups.parts import PartList, listed
from goqueue.core.groups.reads import GroupReads
from goqueue.core.groups.records import GroupConfig, GroupGone, GroupState, Record
from goqueue.core.groups.replies import (
    GroupDone,
    GroupStep,
    LeaveReply,
    OffsetResult,
    OffsetsReply,
)
from goqueue.core.groups.requests import (
    JOIN,
    CommitRequest,
    ConsumerHeartbeat,
    HeartbeatRequest,
    JoinRequest,
    LeaveRequest,
    OffsetCommit,
    RestJoin,
    ShareHeartbeat,
    SyncRequest,
)
from goqueue.core.groups.settings import GroupSettings
from goqueue.core.groups.table import GroupTable


class Coordinator(GroupReads):
    """Finds or makes the group, lets it decide, and keeps the timers."""

    def __init__(
        self,
        settings: GroupSettings,
        topics: Mapping[str, int] | None = None,
        elsewhere: Callable[[bool], int] = lambda exact: 0,
        check_new: Callable[[str], None] = lambda name: None,
    ) -> None:
        """`topics` are partition counts by name, which do not change; None if they are not known yet. `elsewhere` says
        how many groups other coordinators have: the bound on groups is for all of them. `check_new` raises if a group
        of that name may not be made."""
        self.settings = settings
        super().__init__(GroupTable(settings, topics, elsewhere, check_new))

    @property
    def topics(self) -> Mapping[str, int]:
        """Partition counts by name, as last told."""
        return self._table.topics or {}

    # --- recovery and time -----------------------------------------------------------------------------

    def apply(self, record: Record, offset: Offset = 0) -> None:
        """A stored record, in order."""
        self._table.apply(record)

    def loaded(self, now: Millis) -> GroupStep:
        """All records are applied: groups begin to work, and sessions start afresh."""
        out = GroupStep()
        self._table.loaded(now, out)
        return out

    def revert(self, records: Sequence[Record], now: Millis) -> Sequence[int]:
        """These could not be written: their groups are made anew from what is stored, and who waits in them has to
        ask again."""
        names = sorted({record.group for record in records if isinstance(record, GroupState | GroupGone)})
        return [ticket for name in names for ticket in self._table.rebuild(name, now)]

    def tick(self, now: Millis) -> GroupStep:
        """Does everything that is due."""
        out = GroupStep()
        self._table.tick(now, out)
        return out

    def next_deadline(self) -> Millis | None:
        """When to tick next. It may be early, never late."""
        return self._table.next_deadline()

    def shift(self, by_ms: Millis, now: Millis) -> GroupStep:
        """The clock was set, and `now` is by the new time: sessions and rebalances last as long as they would have."""
        self._table.shift(by_ms, now)
        return GroupStep()

    def topics_changed(self, topics: Mapping[str, int], now: Millis) -> GroupStep:
        """Topics came, went or grew; `topics` has all there are now."""
        out = GroupStep()
        self._table.set_topics(topics, now, out)
        return out

    def topic_deleted(self, topic: str) -> GroupStep:
        """Forgets every group's offsets of the topic."""
        out = GroupStep()
        self._table.offsets.delete_topic(topic, out)
        return out

    # --- the classic protocol --------------------------------------------------------------------------

    def join(self, ticket: int, request: JoinRequest, now: Millis) -> GroupStep:
        """Answered when the rebalance has everybody or its time is up."""
        with self._deciding(ticket, request.group, now) as out:
            rest.check_session(request.session_ms, self.settings)
            if (mixed := self._table.mixed(request.group)) is not None:
                members.join(mixed, ticket, request, now, out)
                return self._moved(request.group, now, out)
            if request.member_id:
                group = self._table.classic(request.group)
            else:
                group = self._table.classic_to_join(request.group, now, out)
            classic_join.join(group, ticket, request, now, out)
        return out

    def sync(self, ticket: int, request: SyncRequest, now: Millis) -> GroupStep:
        """Answered when the leader has synced."""
        with self._deciding(ticket, request.group, now) as out:
            if (mixed := self._table.mixed(request.group)) is not None:
                members.sync(mixed, ticket, request, now, out)
            else:
                self._table.classic(request.group).sync(ticket, request, now, out)
        return out

    def heartbeat(self, ticket: int, request: HeartbeatRequest, now: Millis) -> GroupStep:
        with self._deciding(ticket, request.group, now) as out:
            if (mixed := self._table.mixed(request.group)) is not None:
                members.heartbeat(mixed, ticket, request, now, out)
            else:
                self._table.classic(request.group).heartbeat(ticket, request, now, out)
        return out

    def leave(self, ticket: int, request: LeaveRequest, now: Millis) -> GroupStep:
        with self._deciding(ticket, request.group, now) as out:
            group = self._table.groups.get(request.group)
            if group is None:
                error = UnknownMember(f"There is no group {request.group!r}.")
                out.answer(ticket, LeaveReply([(member_id, place, error) for member_id, place in request.members]))
            elif isinstance(group, ConsumerGroup):
                kafka.leave(group, ticket, request, now, out)  # an administrator, or a classic member itself
            else:
                self._table.classic(request.group).leave(ticket, request, now, out)
        return self._moved(request.group, now, out)

    # --- the server-side protocol and REST -------------------------------------------------------------

    def consumer_heartbeat(self, ticket: int, request: ConsumerHeartbeat, now: Millis) -> GroupStep:
        with self._deciding(ticket, request.group, now) as out:
            if request.member_epoch == JOIN:
                group = self._table.consumer_to_join(request.group, now, is_kafka=True)
            else:
                group = self._table.consumer(request.group)
            kafka.beat(group, ticket, request, now, out)
            self._table.install(group, now, out)
        return self._moved(request.group, now, out)

    def share_heartbeat(self, ticket: int, request: ShareHeartbeat, now: Millis) -> GroupStep:
        with self._deciding(ticket, request.group, now) as out:
            is_new = request.member_epoch == JOIN
            group = self._table.consumer_to_join(request.group, now) if is_new else self._table.consumer(request.group)
            share.beat(group, ticket, request, now, out)
            self._table.install(group, now, out)
        return out

    def rest_join(self, ticket: int, request: RestJoin, now: Millis) -> GroupStep:
        with self._deciding(ticket, request.group, now) as out:
            group = self._table.consumer_to_join(request.group, now)
            rest.join(group, ticket, request, now, out)
            self._table.install(group, now, out)
        return out

    def rest_heartbeat(self, ticket: int, group: str, member_id: str, generation: int, now: Millis) -> GroupStep:
        with self._deciding(ticket, group, now) as out:
            rest.heartbeat(self._table.consumer(group), ticket, member_id, generation, now, out)
        return out

    def rest_revoke(
        self,
        ticket: int,
        group: str,
        member_id: str,
        generation: int,
        partitions: Sequence[tuple[str, Sequence[int]]],
        now: Millis,
    ) -> GroupStep:
        """The member gives partitions back; the answer is that of a heartbeat."""
        with self._deciding(ticket, group, now) as out:
            rest.revoke(self._table.consumer(group), ticket, member_id, generation, partitions, now, out)
        return out

    def rest_leave(self, ticket: int, group: str, member_id: str, now: Millis) -> GroupStep:
        with self._deciding(ticket, group, now) as out:
            rest.leave(self._table.consumer(group), ticket, member_id, now, out)
        return self._moved(group, now, out)

    def rest_readable(self, group: str, member_id: str, generation: int) -> PartList:
        """What a REST member may read in this generation; raises if the generation is not its current one."""
        return listed(rest.readable(self._table.consumer(group), member_id, generation))

    # --- offsets ---------------------------------------------------------------------------------------

    def commit(self, ticket: int, request: CommitRequest, now: Millis) -> GroupStep:
        with self._deciding(ticket, request.group, now) as out:
            check_commit(self._table.groups.get(request.group), request)
            self._table.check_room(request.group)
            out.answer(ticket, self._committed(request.group, request.offsets, now, out))
        return out

    def reset_offsets(self, ticket: int, group: str, offsets: Sequence[OffsetCommit], now: Millis) -> GroupStep:
        """An administrator moves a group without members."""
        with self._deciding(ticket, group, now) as out:
            check_empty(self._table.groups.get(group))
            self._table.check_room(group)
            out.answer(ticket, self._committed(group, offsets, now, out))
        return out

    def reset_share_offsets(self, ticket: int, group: str, offsets: Sequence[OffsetCommit], now: Millis) -> GroupStep:
        """The same for a share group, which is made if there is no group of that name."""
        with self._deciding(ticket, group, now) as out:
            self.check_share_reset(group)
            self._table.share_to_reset(group, now, out)
            out.answer(ticket, self._committed(group, offsets, now, out))
        return out

    def check_share_reset(self, group: str) -> None:
        """Raises if the group has members or is of another kind."""
        check_empty(self._table.share(group))
        self._table.check_room(group)

    def check_in_transaction(self, request: CommitRequest) -> None:
        """Raises if a transaction may not move the group so: once it is committed, nobody hears of it."""
        check_in_transaction(self._table.groups.get(request.group), request)
        self._table.check_room(request.group)
        self._table.offsets.check_metadata(request.offsets)

    def commit_settled(self, ticket: int, group: str, offsets: Sequence[OffsetCommit], now: Millis) -> GroupStep:
        """A transaction that committed moves the group, whoever its members are by now."""
        with self._deciding(ticket, group, now) as out:
            out.answer(ticket, self._committed(group, offsets, now, out))
        return out

    def move(self, group: str, offsets: Sequence[OffsetCommit], now: Millis) -> GroupStep:
        """The queue view's acks move the group; nobody waits for an answer."""
        out = GroupStep()
        self._table.offsets.commit(group, offsets, self._table.topics, now, out)
        return out

    def delete_offsets(self, ticket: int, group: str, partitions: Sequence[TopicPartition], now: Millis) -> GroupStep:
        with self._deciding(ticket, group, now) as out:
            machine = self._table.find(group)
            check_delete(machine)
            topics = frozenset[str]() if machine is None else live_topics(machine)
            results = [_deletable(at, topics) for at in partitions]
            gone = [TopicPartition(each.topic, each.partition) for each in results if each.error is None]
            self._table.offsets.delete(group, gone, out)
            out.answer(ticket, OffsetsReply(results))
        return out

    # --- administration --------------------------------------------------------------------------------

    def delete_group(self, ticket: int, group: str, now: Millis) -> GroupStep:
        with self._deciding(ticket, group, now) as out:
            check_empty(self._table.find(group))
            self._table.delete(group, out)
            out.answer(ticket, GroupDone())
        return out

    def configure(self, ticket: int, group: str, changes: Mapping[str, str | None], now: Millis) -> GroupStep:
        """An administrator sets something for one group, or takes it back (None)."""
        with self._deciding(ticket, group, now) as out:
            before = self._table.configs.get(group, {})
            after = changed_config(group, before, changes, self.settings)
            if after and not before:
                check_room(len(self._table.configs))
            if after != before:
                out.records.append(GroupConfig(group, after))
            out.answer(ticket, GroupDone())
        return out

    # --- inside ----------------------------------------------------------------------------------------

    @contextmanager
    def _deciding(self, ticket: int, group: str, now: Millis) -> Iterator[GroupStep]:
        """A step for one group; an error word is its answer."""
        out = GroupStep()
        try:
            yield out
        except GoQueueError as error:
            out.answer(ticket, error)
        self._table.watch(group, now, bool(out.records))

    def _moved(self, group: str, now: Millis, out: GroupStep) -> GroupStep:
        """A group of classic members only goes on in the classic protocol."""
        self._table.downgrade(group, now, out)
        self._table.watch(group, now)
        return out

    def _committed(self, group: str, offsets: Sequence[OffsetCommit], now: Millis, out: GroupStep) -> OffsetsReply:
        return OffsetsReply(self._table.offsets.commit(group, offsets, self._table.topics, now, out))


def _deletable(at: TopicPartition, subscribed: frozenset[str] | None) -> OffsetResult:
    """None means that members may read anything."""
    if subscribed is not None and at.topic not in subscribed:
        return OffsetResult(at.topic, at.partition)
    error = GroupSubscribed(f"The group reads {at.topic!r}; stop its members or unsubscribe them first.", field="topic")
    return OffsetResult(at.topic, at.partition, error)
