"""A coordinator in virtual time, with a log that survives a crash and a book of every ticket."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from goqueue.base.errors import DiskFull, GoQueueError
from goqueue.core.groups import (
    CommitRequest,
    ConsumerHeartbeat,
    Coordinator,
    GroupSettings,
    GroupStep,
    HeartbeatRequest,
    JoinRequest,
    LeaveRequest,
    OffsetCommit,
    RestJoin,
    SyncRequest,
    decode_record,
    encode_record,
)

TOPICS = {"a": 3, "b": 4}


class World:
    """Every record goes through its bytes into `stored`; every reply into `answers`, once.

    While it `refuses`, nothing can be stored, as on a full disk.
    """

    def __init__(self, topics: Mapping[str, int] = TOPICS, **settings: Any) -> None:
        self.settings = GroupSettings(**settings)
        self.topics = dict(topics)
        self.now = 1_000
        self.stored: list[tuple[bytes, bytes | None]] = []
        self.answers: dict[int, Any] = {}
        self.asked = 0
        self.refuses = False
        self.refused = 0
        self.coordinator = Coordinator(self.settings, self.topics)
        self.take(self.coordinator.loaded(self.now))

    # --- plumbing

    def take(self, step: GroupStep) -> GroupStep:
        for reply in step.at_once:
            self._answer(reply.ticket, reply.result)
        if self.refuses and step.records:
            self._refuse(step)
            return step
        self.stored += [encode_record(record) for record in step.records]
        for record in step.records:
            self.coordinator.apply(record)
        for reply in step.replies:
            self._answer(reply.ticket, reply.result)
        return step

    def _refuse(self, step: GroupStep) -> None:
        self.refused += 1
        waited = self.coordinator.revert(step.records, self.now)
        for ticket in (*waited, *(reply.ticket for reply in step.replies)):
            self._answer(ticket, DiskFull("No space left."))

    def _answer(self, ticket: int, result: Any) -> None:
        assert ticket not in self.answers, "answered twice"
        self.answers[ticket] = result

    def ask(self, call: Callable[..., GroupStep], *arguments: Any) -> int:
        self.asked += 1
        self.take(call(self.asked, *arguments, self.now))
        return self.asked

    def result(self, ticket: int) -> Any:
        """The answer, None while it is parked; an error word is raised."""
        answer = self.answers.get(ticket)
        if isinstance(answer, GoQueueError):
            raise answer
        return answer

    def now_or_never(self, call: Callable[..., GroupStep], *arguments: Any) -> Any:
        ticket = self.ask(call, *arguments)
        assert ticket in self.answers, "parked"
        return self.result(ticket)

    def run(self, ms: int) -> None:
        """Time passes; the coordinator is woken exactly when it asks to be."""
        end = self.now + ms
        while (due := self.coordinator.next_deadline()) is not None and due <= end:
            self.now = max(self.now, due)
            self.take(self.coordinator.tick(self.now))
        self.now = end

    def replayed(self, upto: int | None = None) -> Coordinator:
        """A fresh coordinator that read the log and begins to work."""
        fresh = self._read(upto, None)
        fresh.loaded(self.now)
        return fresh

    def _read(self, upto: int | None, topics: Mapping[str, int] | None) -> Coordinator:
        fresh = Coordinator(self.settings, topics)
        for key, value in self.stored[:upto]:
            record = decode_record(key, value)
            assert record is not None
            assert encode_record(record) == (key, value)
            fresh.apply(record)
        return fresh

    def crash(self, upto: int | None = None) -> None:
        """The node comes back with what is stored; parked requests are lost."""
        self.coordinator = self._read(upto, self.topics)
        self.stored = self.stored[:upto]
        self.take(self.coordinator.loaded(self.now))

    # --- classic

    def join(self, member_id: str = "", **changes: Any) -> int:
        return self.ask(self.coordinator.join, self.join_request(member_id, **changes))

    def join_request(self, member_id: str = "", **changes: Any) -> JoinRequest:
        values: dict[str, Any] = {
            "group": "g",
            "member_id": member_id,
            "group_instance_id": None,
            "client_id": "client",
            "client_host": "/127.0.0.1",
            "protocol_type": "consumer",
            "protocols": [("range", b"r"), ("roundrobin", b"rr")],
            "session_ms": 10_000,
            "rebalance_ms": 20_000,
            "requires_member_id": False,
            "supports_skipping_assignment": True,
            "new_member_id": f"m{self.asked + 1}",
        }
        return JoinRequest(**{**values, **changes})

    def sync(self, member_id: str, generation: int, *assignments: tuple[str, bytes], **changes: Any) -> int:
        request = SyncRequest(
            "g", member_id, changes.pop("instance", None), generation, assignments=assignments, **changes
        )
        return self.ask(self.coordinator.sync, request)

    def beat(self, member_id: str, generation: int, instance: str | None = None) -> Any:
        return self.now_or_never(self.coordinator.heartbeat, HeartbeatRequest("g", member_id, instance, generation))

    def leave(self, *members: str | tuple[str, str | None]) -> Any:
        pairs = [(each, None) if isinstance(each, str) else each for each in members]
        return self.now_or_never(self.coordinator.leave, LeaveRequest("g", pairs))

    def settled(self, *tickets: int) -> int:
        """Finishes a rebalance: the members of these joins sync, the leader gives each its own name."""
        joins = [self.result(ticket) for ticket in tickets]
        generation: int = joins[0].generation
        given = [(member.member_id, member.member_id.encode()) for join in joins for member in join.members]
        for joined in joins:
            mine = given if joined.leader == joined.member_id else []
            self.sync(joined.member_id, generation, *mine)
        assert self.state() == "Stable"
        return generation

    # --- consumer

    def touch(self, member_id: str, epoch: int, **changes: Any) -> Any:
        return self.now_or_never(
            self.coordinator.consumer_heartbeat, ConsumerHeartbeat("g", member_id, epoch, **changes)
        )

    def rest_join(self, member_id: str = "", *topics: str, **changes: Any) -> Any:
        request = RestJoin("g", changes.pop("known_as", ""), member_id, "client", topics or ("a",), **changes)
        return self.now_or_never(self.coordinator.rest_join, request)

    def rest_beat(self, member_id: str, generation: int) -> Any:
        return self.now_or_never(self.coordinator.rest_heartbeat, "g", member_id, generation)

    def rest_revoke(self, member_id: str, generation: int, parts: Any) -> Any:
        return self.now_or_never(self.coordinator.rest_revoke, "g", member_id, generation, parts)

    # --- offsets

    def commit(
        self, offset: int, member_id: str = "", generation: int = -1, topic: str = "a", partition: int = 0
    ) -> Any:
        request = CommitRequest("g", member_id, generation, None, [OffsetCommit(topic, partition, offset)])
        return self.now_or_never(self.coordinator.commit, request)

    def committed(self) -> dict[str, int]:
        return {str(at): record.offset for at, record in self.coordinator.offsets("g").items()}

    def state(self) -> str:
        return self.coordinator.describe("g").state
