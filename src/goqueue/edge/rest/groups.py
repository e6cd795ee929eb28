"""Group routes: members, polls, offsets, administration."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from goqueue.api.groups import (
    Beat,
    BeatIn,
    CommitIn,
    CommitOne,
    CommitOut,
    CommittedOut,
    Group,
    GroupLag,
    GroupListOut,
    GroupMember,
    GroupSummary,
    Joined,
    JoinIn,
    LeaveIn,
    OffsetMove,
    OffsetsOut,
    PollOut,
    ResetIn,
    ResetOut,
    RevokeIn,
    TopicParts,
)
from goqueue.api.messages import ErrorOut
from goqueue.base.commands import Caller
from goqueue.base.errors import InvalidField
from goqueue.base.limits import MESSAGES_PER_READ_MAX
from goqueue.base.names import check_name
from goqueue.base.times import parse_duration_ms, parse_time_ms
from goqueue.core.groups.errors import InvalidSessionTimeout
from goqueue.core.groups.parts import PartList
from goqueue.core.groups.replies import MemberDescription, OffsetResult, RebalanceStats, RestBeat
from goqueue.core.groups.requests import CommitRequest, OffsetCommit, RestJoin
from goqueue.edge.rest.callers import caller_of
from goqueue.edge.rest.delivered_json import delivered_json
from goqueue.edge.rest.errors import problem
from goqueue.edge.rest.operations import JsonResponse, Param, RestOperation, json
from goqueue.edge.rest.requests import Bodies, Query, decode, while_connected
from goqueue.service.consume import Consuming, Poll
from goqueue.service.front import Front, answer_of
from goqueue.service.groups import Groups, PartitionLag
from goqueue.service.leasing import LEASE_MS_MAX
from goqueue.service.readers import MemberReading
from goqueue.service.reset import Reset, ResetOffsets

_GENERATION_MAX = 2**31 - 1
_POLLS_KEPT = 4_096
_POLL_KEPT_BYTES_MAX = 512

_POLL_PARAMS = (
    Param("member_id", "Who polls; required."),
    Param("generation", "Its generation; required.", "integer"),
    Param("timeout", "Wait this long for the first message, like `10s`; default and most: `rest.poll_ms_max`."),
    Param("limit", "At most this many messages, 1 to 10,000; default 100.", "integer"),
    Param("visibility_timeout", "How long the messages are this member's, like `30s`; default the group's."),
)


def _polled_json(messages: bytes, generation: int, rebalance: bool) -> Response:
    """`PollOut`, whose messages are encoded already."""
    told = b'"generation":%d,"rebalance":%s' % (generation, b"true" if rebalance else b"false")
    return JsonResponse(b'{"messages":%b,%b}\n' % (messages, told), 200, "application/json")


class GroupRoutes:
    def __init__(
        self,
        groups: Front[Groups],
        consuming: Front[Consuming],
        reset: Front[ResetOffsets],
        bodies: Bodies,
        poll_ms_max: int,
    ) -> None:
        self._groups = groups
        self._consuming = consuming
        self._reset = reset
        self._polls: dict[tuple[str, bytes], Poll] = {}  # as members asked
        self._bodies = bodies
        self._poll_ms_max = poll_ms_max

    def operations(self) -> list[RestOperation]:
        tag, group = "groups", "/groups/{group}"
        offsets = f"{group}/offsets"
        return [
            RestOperation("GET", "/groups", self.list, "List groups", tag, GroupListOut),
            RestOperation("GET", group, self.describe, "Describe a group", tag, Group),
            RestOperation("DELETE", group, self.delete, "Delete a group without members", tag, None, 204),
            RestOperation("POST", f"{group}/join", self.join, "Join or join again", tag, Joined, 200, JoinIn),
            RestOperation("POST", f"{group}/heartbeat", self.heartbeat, "Stay in", tag, Beat, 200, BeatIn),
            RestOperation("POST", f"{group}/revoke", self.revoke, "Give partitions back", tag, Beat, 200, RevokeIn),
            RestOperation("POST", f"{group}/leave", self.leave, "Leave", tag, None, 204, LeaveIn),
            RestOperation(
                "GET", f"{group}/poll", self.poll, "Read as a member", tag, PollOut, params=_POLL_PARAMS, consumes=True
            ),
            RestOperation("GET", offsets, self.offsets, "Committed offsets and lag", tag, OffsetsOut),
            RestOperation("POST", offsets, self.commit, "Commit offsets", tag, CommitOut, 200, CommitIn),
            RestOperation("POST", f"{offsets}/reset", self.reset, "Move the group", tag, ResetOut, 200, ResetIn),
            RestOperation("GET", f"{group}/rebalance/stats", self.stats, "Rebalances so far", tag, RebalanceStats),
        ]

    # --- members ---------------------------------------------------------------------------------------------

    async def join(self, request: Request) -> Response:
        group = _group(request)
        async with self._bodies.read(request) as body:
            given = decode(body, JoinIn)
        asked = RestJoin(
            group=group,
            member_id=given.member_id or "",
            new_member_id=self._groups.by(caller_of(request)).new_member_id(given.client_id),
            client_id=given.client_id,
            topics=given.topics,
            protocol=given.protocol,
            assignor=given.assignor,
            session_ms=_session_ms(given),
            mode=given.mode,
            client_host=f"/{request.client.host}" if request.client else "",
        )
        try:
            joined = await self._consuming.by(caller_of(request)).join(asked, _reading(given))
        except InvalidSessionTimeout as error:
            error.field = "session_timeout"
            raise
        assignment = _parts(joined.assignment)
        beat_ms, session_ms = joined.heartbeat_ms, joined.session_ms
        return json(
            Joined(joined.member_id, joined.generation, assignment, beat_ms, session_ms, joined.protocol, joined.mode)
        )

    async def heartbeat(self, request: Request) -> Response:
        group = _group(request)
        async with self._bodies.read(request) as body:
            given = decode(body, BeatIn)
        return json(
            _beat(await self._consuming.by(caller_of(request)).heartbeat(group, given.member_id, given.generation))
        )

    async def revoke(self, request: Request) -> Response:
        group = _group(request)
        async with self._bodies.read(request) as body:
            given = decode(body, RevokeIn)
        partitions = [(one.topic, one.partitions) for one in given.partitions]
        return json(
            _beat(
                await self._consuming.by(caller_of(request)).revoke(
                    group, given.member_id, given.generation, partitions
                )
            )
        )

    async def leave(self, request: Request) -> Response:
        group = _group(request)
        async with self._bodies.read(request) as body:
            given = decode(body, LeaveIn)
        await self._consuming.by(caller_of(request)).leave(group, given.member_id)
        return Response(status_code=204)

    async def poll(self, request: Request) -> Response:
        poll = self._poll_of(request)
        polled = await while_connected(request, self._consuming.by(poll.caller).poll(poll))
        return _polled_json(await delivered_json(polled.runs), polled.generation, polled.rebalance)

    def _poll_of(self, request: Request) -> Poll:
        """Members poll the same again and again."""
        asked = (request.path_params["group"], request.scope["query_string"])
        poll, caller = self._polls.get(asked), caller_of(request)
        if poll is None or poll.caller is not caller:
            poll = self._parsed_poll(request, caller)
            if len(asked[1]) <= _POLL_KEPT_BYTES_MAX:
                if len(self._polls) >= _POLLS_KEPT:
                    self._polls.clear()
                self._polls[asked] = poll
        return poll

    def _parsed_poll(self, request: Request, caller: Caller) -> Poll:
        query = Query(request, "member_id", "generation", "timeout", "limit", "visibility_timeout")
        group = check_name(request.path_params["group"], "group", "group")
        for name in ("member_id", "generation"):
            if not query.has(name):
                raise InvalidField(f"Say which {name} polls; the answer of the join has it.", field=name)
        wait_ms = query.duration_ms("timeout", self._poll_ms_max) if query.has("timeout") else self._poll_ms_max
        return Poll(
            group=group,
            member_id=query.text("member_id", ""),
            generation=query.number("generation", 0, 0, _GENERATION_MAX),
            limit=query.number("limit", 100, 1, MESSAGES_PER_READ_MAX),
            wait_ms_max=wait_ms,
            lease_ms=query.duration_ms("visibility_timeout", LEASE_MS_MAX) if query.has("visibility_timeout") else None,
            caller=caller,
        )

    # --- offsets ---------------------------------------------------------------------------------------------

    async def offsets(self, request: Request) -> Response:
        found = await answer_of(self._groups.by(caller_of(request)).lag(_group(request)))
        return json(OffsetsOut([_lag(one) for one in found]))

    async def commit(self, request: Request) -> Response:
        group = _group(request)
        async with self._bodies.read(request) as body:
            given = decode(body, CommitIn)
        if (given.member_id is None) != (given.generation is None):
            missing = "generation" if given.generation is None else "member_id"
            raise InvalidField("A member commits with both its member_id and its generation.", field=missing)
        offsets = [OffsetCommit(one.topic, one.partition, one.offset, -1, one.metadata) for one in given.offsets]
        generation = -1 if given.generation is None else given.generation
        results = await self._consuming.by(caller_of(request)).commit(
            CommitRequest(group, given.member_id or "", generation, None, offsets)
        )
        for place, result in enumerate(results):
            if result.error is not None:
                result.error.field = f"offsets[{place}].{result.error.field}"
        failed = [result.error for result in results if result.error is not None]
        if len(failed) == len(results):
            return problem(failed[0])
        pairs = zip(given.offsets, results, strict=True)
        return json(CommitOut([_committed(*pair) for pair in pairs]), 207 if failed else 200)

    async def reset(self, request: Request) -> Response:
        group = _group(request)
        async with self._bodies.read(request) as body:
            given = decode(body, ResetIn)
        command = Reset(group, given.topic, given.to, given.partition, _number(given), given.dry_run)
        moved = await self._reset.by(caller_of(request)).reset(command)
        shown = [OffsetMove(one.topic, one.partition, one.before, one.after) for one in moved]
        return json(ResetOut(given.dry_run, shown))

    # --- administration --------------------------------------------------------------------------------------

    async def list(self, request: Request) -> Response:
        Query(request)
        found = await answer_of(self._groups.by(caller_of(request)).list())
        shown = [GroupSummary(one.group, one.kind, one.state, one.members, one.protocol_type) for one in found]
        return json(GroupListOut(shown))

    async def describe(self, request: Request) -> Response:
        group = _group(request)
        found = await answer_of(self._groups.by(caller_of(request)).describe(group))
        members = [_member(one) for one in found.members]
        lag = [_lag(one) for one in await answer_of(self._groups.by(caller_of(request)).lag(group))]
        return json(Group(group, found.kind, found.state, found.generation, found.protocol, found.mode, members, lag))

    async def delete(self, request: Request) -> Response:
        await self._groups.by(caller_of(request)).delete(_group(request))
        return Response(status_code=204)

    async def stats(self, request: Request) -> Response:
        return json(await answer_of(self._groups.by(caller_of(request)).stats(_group(request))))


def _group(request: Request) -> str:
    """The group of the path; these routes have no query."""
    Query(request)
    return check_name(request.path_params["group"], "group", "group")


def _session_ms(given: JoinIn) -> int | None:
    asked = given.session_timeout
    return parse_duration_ms(asked, "session_timeout") if isinstance(asked, str) else asked


def _reading(given: JoinIn) -> MemberReading:
    """A member of a shared group answers for its messages unless it says otherwise."""
    auto_commit = given.auto_commit if given.auto_commit is not None else given.mode == "partition"
    lease = given.visibility_timeout
    lease_ms = parse_duration_ms(lease, "visibility_timeout") if isinstance(lease, str) else lease
    if lease_ms is not None and lease_ms > LEASE_MS_MAX:
        raise InvalidField(f"A lease is at most {LEASE_MS_MAX} ms.", field="visibility_timeout")
    return MemberReading(given.begin, auto_commit, lease_ms, given.lanes == "strict")


def _number(given: ResetIn) -> int:
    """The time or offset that `to` asks for; nothing else may be given."""
    for name, value in (("timestamp", given.timestamp), ("offset", given.offset)):
        if value is None and given.to == name:
            raise InvalidField(f"Say which {name} to move to.", field=name)
        if value is not None and given.to != name:
            raise InvalidField(f"A {name} goes with to: {name}, not with to: {given.to}.", field=name)
    if isinstance(given.timestamp, str):
        return parse_time_ms(given.timestamp, "timestamp")
    return given.timestamp or given.offset or 0


def _parts(parts: PartList) -> list[TopicParts]:
    return [TopicParts(topic, numbers) for topic, numbers in parts]


def _beat(beat: RestBeat) -> Beat:
    assignment, revoke, gained = _parts(beat.assignment), _parts(beat.revoke), _parts(beat.gained)
    return Beat(beat.generation, assignment, revoke, gained, beat.heartbeat_ms)


def _committed(given: CommitOne, result: OffsetResult) -> CommittedOut:
    if result.error is None:
        return CommittedOut(given.topic, given.partition, given.offset)
    error = ErrorOut(result.error.code, result.error.message, result.error.field)
    return CommittedOut(given.topic, given.partition, None, error)


def _lag(one: PartitionLag) -> GroupLag:
    committed = one.committed if one.committed >= 0 else None
    return GroupLag(one.topic, one.partition, committed, one.end_offset, one.lag, one.metadata)


def _member(one: MemberDescription) -> GroupMember:
    return GroupMember(
        one.member_id,
        one.client_id,
        one.client_host.removeprefix("/"),
        one.door,
        one.epoch,
        one.topics,
        _parts(one.assignment),
        _parts(one.revoking),
    )
