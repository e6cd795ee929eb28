"""Routes of the dead letters: browse, look, delete, redrive."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from goqueue.api.dead_letters import (
    DeadLetterOut,
    DeadLetterPage,
    DryRun,
    FilterIn,
    LetterOrigin,
    RedriveIn,
    RedriveList,
    RedriveProgress,
)
from goqueue.base.errors import InvalidField, UnknownRedrive
from goqueue.base.limits import MESSAGES_PER_READ_MAX
from goqueue.base.priority import NAMES, priority_of
from goqueue.base.times import parse_time_ms
from goqueue.core.dead_letter import DeadLetterFilter, StoredDeadLetter
from goqueue.core.redrive import RedriveRequest, RedriveTask
from goqueue.edge.rest.callers import caller_of
from goqueue.edge.rest.operations import Param, RestOperation, json
from goqueue.edge.rest.requests import Bodies, Query, decode, number
from goqueue.edge.rest.translate import from_bytes, headers_out, time_in
from goqueue.service.dead_letter_view import Cursor, DeadLetterView, LetterStats, cursor_of
from goqueue.service.dead_letters import Redrives
from goqueue.service.front import Front, answer_of

_NUMBER_MAX = 2**63 - 1

_FILTER_PARAMS = (
    Param("limit", "At most this many, 1 to 10,000; default 100.", "integer"),
    Param("cursor", "Where to go on: `next` of the page before."),
    Param("reason", "Only those that died of this."),
    Param("group", "Only those that died in this group."),
    Param("from", "Only those that died at this time or later."),
    Param("to", "Only those that died before this time."),
    Param("header", "Only those with this header, as `name:value`."),
    Param("fingerprint", "Only those whose error is alike, as the numbers name it."),
)


class DeadLetterRoutes:
    def __init__(self, letters: Front[DeadLetterView], redrives: Front[Redrives], bodies: Bodies) -> None:
        self._letters = letters
        self._redrives = redrives
        self._bodies = bodies

    def operations(self) -> list[RestOperation]:
        tag, many = "dead letters", "/topics/{topic}/dlq"
        one, redrive = many + "/{partition}/{offset}", many + "/redrive"
        task = redrive + "/{id}"
        return [
            RestOperation("GET", many, self.list, "Browse dead letters", tag, DeadLetterPage, params=_FILTER_PARAMS),
            RestOperation("GET", f"{many}/stats", self.stats, "Dead letters in numbers", tag, LetterStats),
            RestOperation("POST", redrive, self.redrive, "Redrive dead letters", tag, RedriveProgress, 202, RedriveIn),
            RestOperation("GET", redrive, self.history, "Redrives so far", tag, RedriveList),
            RestOperation("GET", task, self.progress, "How a redrive stands", tag, RedriveProgress),
            RestOperation("DELETE", task, self.cancel, "Cancel a redrive", tag, RedriveProgress),
            RestOperation("GET", one, self.show, "Look at a dead letter", tag, DeadLetterOut),
            RestOperation("DELETE", one, self.delete, "Delete a dead letter", tag, status=204),
        ]

    # --- letters ---------------------------------------------------------------------------------------------

    async def list(self, request: Request) -> Response:
        query = Query(request, *(param.name for param in _FILTER_PARAMS))
        topic = request.path_params["topic"]
        limit = query.number("limit", 100, 1, MESSAGES_PER_READ_MAX)
        page = await self._letters.by(caller_of(request)).page(topic, _filter_of(query, topic), _cursor(query), limit)
        after = None if page.next is None else f"{page.next[0]}:{page.next[1]}"
        return json(
            DeadLetterPage(
                self._letters.by(caller_of(request)).home_of(topic), [_letter(one) for one in page.letters], after
            )
        )

    async def show(self, request: Request) -> Response:
        return json(_letter(await self._letters.by(caller_of(request)).show(*_address(request))))

    async def delete(self, request: Request) -> Response:
        await self._letters.by(caller_of(request)).delete(*_address(request))
        return Response(status_code=204)

    async def stats(self, request: Request) -> Response:
        Query(request)
        return json(await self._letters.by(caller_of(request)).stats(request.path_params["topic"]))

    # --- redrive ---------------------------------------------------------------------------------------------

    async def redrive(self, request: Request) -> Response:
        Query(request)
        async with self._bodies.read(request) as body:
            given = decode(body or b"{}", RedriveIn)
        topic = request.path_params["topic"]
        chosen = _filter_in(given.filter, topic)
        asked = RedriveRequest(
            self._letters.by(caller_of(request)).home_of(topic), given.to, given.rate, chosen, given.limit
        )
        if given.dry_run:
            told = await self._redrives.by(caller_of(request)).preview(asked)
            return json(DryRun(True, told.matched, told.movable, told.by_reason, told.skipped))
        task = await self._redrives.by(caller_of(request)).start(
            asked.source, asked.to, asked.rate_per_s, asked.filter, asked.limit
        )
        return json(_task(task), 202)

    async def history(self, request: Request) -> Response:
        Query(request)
        home = self._letters.by(caller_of(request)).home_of(request.path_params["topic"])
        found = await answer_of(self._redrives.by(caller_of(request)).tasks(home))
        return json(RedriveList([_task(one) for one in found]))

    async def progress(self, request: Request) -> Response:
        return json(_task(await self._of_topic(request)))

    async def cancel(self, request: Request) -> Response:
        task = await self._of_topic(request)
        return json(_task(await self._redrives.by(caller_of(request)).cancel(task.id)))

    async def _of_topic(self, request: Request) -> RedriveTask:
        Query(request)
        task = await answer_of(self._redrives.by(caller_of(request)).find(request.path_params["id"]))
        if task.source != self._letters.by(caller_of(request)).home_of(request.path_params["topic"]):
            raise UnknownRedrive("That redrive is another topic's.", field="id")
        return task


def _address(request: Request) -> tuple[str, int, int]:
    Query(request)
    given = request.path_params
    partition = number(given["partition"], "partition", 0, 2**31 - 1)
    return given["topic"], partition, number(given["offset"], "offset", 0, _NUMBER_MAX)


def _cursor(query: Query) -> Cursor | None:
    if not query.has("cursor"):
        return None
    found = cursor_of(query.text("cursor", ""))
    if found is None:
        raise InvalidField("That is not a cursor; send `next` of the page before.", field="cursor")
    return found


def _filter_of(query: Query, topic: str) -> DeadLetterFilter:
    headers: tuple[tuple[str, str], ...] = ()
    if query.has("header"):
        name, colon, value = query.text("header", "").partition(":")
        if not colon or not name:
            raise InvalidField("A header is asked for as name:value.", field="header")
        headers = ((name, value),)
    return DeadLetterFilter(
        topic,
        query.text("reason", "") if query.has("reason") else None,
        query.text("group", "") if query.has("group") else None,
        parse_time_ms(query.text("from", ""), "from") if query.has("from") else None,
        parse_time_ms(query.text("to", ""), "to") if query.has("to") else None,
        headers,
        query.text("fingerprint", "") or None,
    )


def _filter_in(given: FilterIn, topic: str) -> DeadLetterFilter:
    since, until = time_in(given.since, "filter.from"), time_in(given.until, "filter.to")
    return DeadLetterFilter(
        topic, given.reason, given.group, since, until, tuple(given.headers.items()), given.fingerprint
    )


def _letter(letter: StoredDeadLetter) -> DeadLetterOut:
    key, key_encoding = from_bytes(letter.key)
    value, encoding = from_bytes(letter.value)
    origin = None
    if letter.topic is not None and letter.origin_partition is not None and letter.origin_offset is not None:
        origin = LetterOrigin(
            letter.topic, letter.origin_partition, letter.origin_offset, letter.group, letter.timestamp_ms
        )
    return DeadLetterOut(
        letter.partition,
        letter.offset,
        key,
        value,
        headers_out(letter.headers),
        NAMES[priority_of(letter.headers)],
        letter.reason,
        letter.text,
        origin,
        letter.attempts,
        letter.failures,
        letter.first_ms or None,
        letter.died_ms or None,
        letter.redrives,
        encoding,
        key_encoding,
    )


def _task(task: RedriveTask) -> RedriveProgress:
    return RedriveProgress(
        task.id,
        task.source,
        task.to,
        task.state,
        task.total,
        task.looked_at,
        task.matched,
        task.moved,
        task.skipped,
        task.failed,
        task.failure,
        task.rate_per_s,
        task.limit,
        task.moved_per_s,
        task.eta_ms,
        task.started_ms,
        task.finished_ms,
    )
