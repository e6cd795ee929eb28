"""Messages under leases down a stream; credit, acks, nacks, rejections and extensions up.

A stream is a member of its group from its first request to its end. What it holds then goes to others at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any, Final

from goqueue.api.groups import JoinIn
from goqueue.base.errors import GoQueueError, InvalidField, QuotaExceeded, ShuttingDown
from goqueue.base.limits import MESSAGES_PER_READ_MAX
from goqueue.base.names import check_name
from goqueue.core.groups.errors import (
    FencedMemberEpoch,
    IllegalGeneration,
    RebalanceInProgress,
    StaleMemberEpoch,
    UnknownMember,
)
from goqueue.core.groups.parts import PartList
from goqueue.core.groups.replies import RestJoined
from goqueue.core.groups.requests import RestJoin
from goqueue.drive.carry_on import carry_on
from goqueue.edge.grpc.answers import AnswerMethods, failures_out
from goqueue.edge.grpc.calls import GrpcCall, GrpcMethod, Send
from goqueue.edge.grpc.convert import given as checked
from goqueue.edge.grpc.deliveries import frames
from goqueue.edge.grpc.errors import brief
from goqueue.service.consume import Consuming, Poll, PollResult
from goqueue.service.front import Front
from goqueue.service.groups import Groups
from goqueue.service.health import Health
from goqueue.service.readers import MemberReading
from goqueue.wire import goqueue_pb2 as pb

_CREDIT_MAX: Final = 1_000_000
_AGAIN_S: Final = 0.1
# The group has changed or forgotten the member: it joins again under its id.
_LOST: Final = (UnknownMember, IllegalGeneration, FencedMemberEpoch, StaleMemberEpoch, RebalanceInProgress)


class SubscribeMethods:
    def __init__(
        self, consuming: Front[Consuming], groups: Front[Groups], answers: AnswerMethods, health: Front[Health]
    ) -> None:
        self.consuming = consuming
        self.groups = groups
        self.answers = answers
        self.health = health

    def methods(self) -> list[GrpcMethod]:
        return [GrpcMethod("goqueue.v1.Subscriber/Subscribe", pb.SubscribeRequest, self.subscribe, "both")]

    async def subscribe(self, requests: AsyncIterator[pb.SubscribeRequest], call: GrpcCall, send: Send) -> None:
        first = await anext(requests, None)
        if first is None or first.WhichOneof("action") != "subscription":
            raise InvalidField("The first request says what to subscribe to.", field="subscription")
        stream = SubscribeStream(self, call, send, first.subscription)
        await stream.join()
        try:
            await stream.run(requests)
        finally:
            await carry_on(stream.leave())


class SubscribeStream:
    """One stream. Two tasks: one hands out, one hears what the client says."""

    def __init__(self, verbs: SubscribeMethods, call: GrpcCall, send: Send, wanted: pb.Subscription) -> None:
        self._consuming = verbs.consuming.by(call.caller)
        self._groups = verbs.groups.by(call.caller)
        self._health = verbs.health.by(call.caller)
        self._answers = verbs.answers
        self._call = call
        self._send = send
        self._wanted = wanted
        self._join_in = _join_in(wanted)
        self._group = check_name(wanted.group, "group", "group")
        self._lease_ms = wanted.lease_ms or None
        self._member_id = wanted.member_id
        self._generation = -1
        self._beat_s = 1.0
        self._credit = 0
        self._has_credit = asyncio.Event()
        self._grant(wanted.credit)

    # --- membership ------------------------------------------------------------------------------------------

    async def join(self) -> None:
        joined = await carry_on(self._join())
        self._member_id, self._generation = joined.member_id, joined.generation
        self._beat_s = max(0.05, min(joined.heartbeat_ms, joined.session_ms / 3) / 1000)
        await self._send(
            pb.SubscribeResponse(
                joined=pb.Joined(
                    member_id=joined.member_id,
                    generation=joined.generation,
                    mode=joined.mode,
                    assignment=_parts(joined.assignment),
                )
            )
        )

    async def _join(self) -> RestJoined:
        given, reading = (
            self._join_in,
            MemberReading(self._join_in.begin, False, self._lease_ms, self._join_in.lanes == "strict"),
        )
        asked = RestJoin(
            group=self._group,
            member_id=self._member_id,
            new_member_id=self._groups.new_member_id(given.client_id),
            client_id=given.client_id,
            topics=given.topics,
            session_ms=self._wanted.session_timeout_ms or None,
            mode=given.mode,
            client_host=f"/{self._call.caller.host}",
        )
        return await self._consuming.join(asked, reading)

    async def leave(self) -> None:
        """What it holds goes to others; also if the group has forgotten it, or its node is gone."""
        with suppress(GoQueueError):
            await self._consuming.leave(self._group, self._member_id)

    async def _beat(self) -> None:
        """Tells the client what it gained and has to let go of."""
        beat = await self._consuming.heartbeat(self._group, self._member_id, self._generation)
        self._generation = beat.generation
        if beat.revoke or beat.gained:
            told = pb.Assignment(
                generation=beat.generation, assignment=_parts(beat.assignment), revoked=_parts(beat.revoke)
            )
            await self._send(pb.SubscribeResponse(assignment=told))
        if beat.revoke and not self._wanted.releases:
            await self._release(beat.revoke)

    async def _release(self, partitions: PartList) -> None:
        beat = await self._consuming.revoke(self._group, self._member_id, self._generation, partitions)
        self._generation = beat.generation

    # --- down ------------------------------------------------------------------------------------------------

    async def run(self, requests: AsyncIterator[pb.SubscribeRequest]) -> None:
        """Until the client ends its side, or something fails."""
        tasks = [asyncio.create_task(self._hear(requests)), asyncio.create_task(self._deliver())]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _deliver(self) -> None:
        while True:
            try:
                await self._deliver_some()
            except _LOST:
                await asyncio.sleep(_AGAIN_S)
                await self.join()

    async def _deliver_some(self) -> None:
        if self._health.stopping:
            raise ShuttingDown("The node is stopping.")
        if not self._credit:
            await self._while_waiting(self._has_credit.wait())
            return
        polled = await self._poll(min(self._credit, MESSAGES_PER_READ_MAX))
        self._generation = polled.generation
        for frame, count in frames(polled.runs):
            self._spend(count)
            await self._while_waiting(self._send(frame))
        if polled.rebalance:
            await self._beat()

    async def _poll(self, limit: int) -> PollResult:
        wait_ms = self._call.wait_ms_max
        try:
            return await self._consuming.poll(
                Poll(self._group, self._member_id, self._generation, limit, wait_ms, self._lease_ms, self._call.caller)
            )
        except QuotaExceeded:  # as much as its tenant may is in flight: the stream goes on when there is less
            await asyncio.sleep(_AGAIN_S)
            return PollResult([], self._generation, rebalance=True)  # it has to show that it is there

    async def _while_waiting(self, work: Any) -> None:
        """The member stays in while it waits for credit or for its reader."""
        waiting = asyncio.ensure_future(work)
        try:
            while not (await asyncio.wait([waiting], timeout=self._beat_s))[0]:
                if self._health.stopping:
                    raise ShuttingDown("The node is stopping.")
                await self._consuming.heartbeat(self._group, self._member_id, self._generation)
            await waiting
        finally:
            waiting.cancel()

    # --- up --------------------------------------------------------------------------------------------------

    async def _hear(self, requests: AsyncIterator[pb.SubscribeRequest]) -> None:
        async for request in requests:
            answer = pb.Answer(id=request.id)
            try:
                answer.failures.extend(await self._heard(request))
            except GoQueueError as error:
                if not request.id:
                    raise
                answer.error.CopyFrom(brief(error))
            if request.id:
                await self._send(pb.SubscribeResponse(answer=answer))

    async def _heard(self, request: pb.SubscribeRequest) -> list[pb.ReceiptFailure]:
        kind = request.WhichOneof("action")
        if kind == "credit":
            self._grant(request.credit.messages)
        elif kind == "released":
            await self._release([(one.topic, list(one.partitions)) for one in request.released.partitions])
        elif kind in ("ack", "nack", "reject", "extend"):
            answering = self._answers.outcomes(getattr(request, kind), self._call.caller)
            return failures_out(*await carry_on(answering))
        else:
            raise InvalidField("Send credit, ack, nack, reject, extend or released.", field="action")
        return []

    def _spend(self, messages: int) -> None:
        self._credit -= messages
        if not self._credit:
            self._has_credit.clear()

    def _grant(self, messages: int) -> None:
        if messages < 0 or self._credit + messages > _CREDIT_MAX:
            raise InvalidField(f"Credit is from 0 to {_CREDIT_MAX} messages in all.", field="credit")
        self._credit += messages
        if self._credit:
            self._has_credit.set()


def _join_in(wanted: pb.Subscription) -> JoinIn:
    """Held to the limits that members over REST have."""
    names = ("group", "lease_ms", "credit", "begin", "releases", "session_timeout_ms")
    if wanted.lease_ms < 0 or wanted.session_timeout_ms < 0:
        raise InvalidField("A duration is not negative.", field="lease_ms")
    found = pb.Subscription()
    found.CopyFrom(wanted)
    found.mode, found.client_id = wanted.mode or "shared", wanted.client_id or "grpc"
    given = checked(found, JoinIn, *names)
    if wanted.begin not in ("", "earliest", "latest"):
        raise InvalidField("begin is earliest or latest.", field="begin")
    return given if wanted.begin != "latest" else _at_end(given)


def _at_end(given: JoinIn) -> JoinIn:
    return JoinIn(given.client_id, given.topics, given.member_id, mode=given.mode, begin="latest", lanes=given.lanes)


def _parts(parts: PartList) -> list[pb.TopicPartitions]:
    return [pb.TopicPartitions(topic=topic, partitions=numbers) for topic, numbers in parts]
