"""Routes of delayed messages: list, look, cancel, statistics."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from goqueue.api.console import CalendarBucket, CalendarOut
from goqueue.api.delayed import DelayedListOut, DelayedOut, DelayStatsOut
from goqueue.api.messages import RepeatIn
from goqueue.base.commands import Repeat
from goqueue.base.limits import CALENDAR_BUCKETS_MAX, MESSAGES_PER_READ_MAX
from goqueue.base.times import time_text
from goqueue.edge.rest.callers import caller_of
from goqueue.edge.rest.operations import Param, RestOperation, json
from goqueue.edge.rest.requests import Query, number
from goqueue.edge.rest.translate import from_bytes, headers_out
from goqueue.service.front import Front, answer_of
from goqueue.service.scheduling import DelayedMessage, Scheduling

_NUMBER_MAX = 2**63 - 1
_STEPS_MS = (60_000, 300_000, 900_000, 3_600_000, 21_600_000, 86_400_000, 7 * 86_400_000, 30 * 86_400_000)


class DelayedRoutes:
    def __init__(self, scheduling: Front[Scheduling]) -> None:
        self._scheduling = scheduling

    def operations(self) -> list[RestOperation]:
        tag, many = "delayed", "/topics/{topic}/delayed"
        one = many + "/{partition}/{offset}"
        params = (
            Param("limit", "At most this many, 1 to 10,000; default 100.", "integer"),
            Param("skip", "Leave out so many of the next ones.", "integer"),
        )
        return [
            RestOperation("GET", many, self.list, "List what waits, by time", tag, DelayedListOut, params=params),
            RestOperation("GET", f"{many}/calendar", self.calendar, "How many are due when", tag, CalendarOut),
            RestOperation("GET", one, self.show, "Look at a delayed message", tag, DelayedOut),
            RestOperation("DELETE", one, self.cancel, "Cancel a delayed message", tag, status=204),
            RestOperation("GET", "/delay/stats", self.stats, "Delayed messages in numbers", tag, DelayStatsOut),
        ]

    async def list(self, request: Request) -> Response:
        query = Query(request, "limit", "skip")
        topic = request.path_params["topic"]
        limit = query.number("limit", 100, 1, MESSAGES_PER_READ_MAX)
        found = await self._scheduling.by(caller_of(request)).list(
            topic, limit, query.number("skip", 0, 0, _NUMBER_MAX)
        )
        pending = await answer_of(self._scheduling.by(caller_of(request)).pending(topic))
        return json(DelayedListOut([_out(one) for one in found], pending))

    async def calendar(self, request: Request) -> Response:
        """In the shortest of some usual steps that gives few enough of them."""
        Query(request)
        topic, scheduling = request.path_params["topic"], self._scheduling.by(caller_of(request))
        first, last = await scheduling.due_ends(topic) or (0, 0)
        fine = (step for step in _STEPS_MS if (last - first) // step < CALENDAR_BUCKETS_MAX // 4)
        step_ms = next(fine, max(_STEPS_MS[-1], (last - first) // CALENDAR_BUCKETS_MAX + 1))
        counts = await scheduling.due_counts(topic, step_ms)
        buckets = [CalendarBucket(due, count) for due, count in counts.items()]
        return json(CalendarOut(step_ms, await answer_of(scheduling.pending(topic)), buckets))

    async def show(self, request: Request) -> Response:
        return json(_out(await self._scheduling.by(caller_of(request)).show(*_address(request))))

    async def cancel(self, request: Request) -> Response:
        await self._scheduling.by(caller_of(request)).cancel(*_address(request))
        return Response(status_code=204)

    async def stats(self, request: Request) -> Response:
        Query(request)
        told = await self._scheduling.by(caller_of(request)).stats()
        return json(
            DelayStatsOut(
                told.pending,
                told.near,
                told.scheduled,
                told.delivered,
                told.cancelled,
                told.expired,
                None if told.next_due_ms is None else time_text(told.next_due_ms),
                told.late_ms_p50,
                told.late_ms_p99,
                told.late_ms_max,
            )
        )


def _address(request: Request) -> tuple[str, int, int]:
    Query(request)
    given = request.path_params
    partition = number(given["partition"], "partition", 0, 2**31 - 1)
    return given["topic"], partition, number(given["offset"], "offset", 0, _NUMBER_MAX)


def _out(one: DelayedMessage) -> DelayedOut:
    due = time_text(one.due_ms)
    if one.message is None:
        return DelayedOut(one.topic, one.partition, one.offset, one.state, due, ended=one.ended_ms, fired=one.fired)
    key, key_encoding = from_bytes(one.message.key)
    value, encoding = from_bytes(one.message.value)
    return DelayedOut(
        one.topic,
        one.partition,
        one.offset,
        one.state,
        due,
        key,
        value,
        headers_out(one.message.headers),
        encoding,
        key_encoding,
        one.message.timestamp_ms,
        one.ttl_ms,
        None if one.repeat is None else _repeat_out(one.repeat),
        one.fired,
    )


def _repeat_out(repeat: Repeat) -> RepeatIn:
    return RepeatIn(
        repeat.cron or None,
        repeat.timezone or None,
        f"{repeat.every_ms}ms" if repeat.every_ms else None,
        repeat.times or None,
        time_text(repeat.until_ms) if repeat.until_ms else None,
    )
