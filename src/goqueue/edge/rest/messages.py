"""Message routes: publish, read, and the live tail."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import msgspec
from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from goqueue.api.messages import (
    ErrorOut,
    MessageOut,
    PartitionPageOut,
    PublishIn,
    PublishOut,
    ResultOut,
    TopicPageOut,
)
from goqueue.base.commands import (
    Acks,
    Browse,
    Caller,
    Isolation,
    MessagePage,
    PublishMessages,
    PublishResult,
    ScheduledAt,
    SkippedOffsets,
    StoredAt,
)
from goqueue.base.errors import GoQueueError, InvalidField, Overloaded
from goqueue.base.ids import Offset
from goqueue.base.limits import LARGE_PAGES_MAX, MESSAGES_PER_READ_MAX, SMALL_PAGE_BYTES_MAX, TAILS_MAX
from goqueue.base.settings import RestSettings
from goqueue.base.times import time_text
from goqueue.edge.rest.callers import caller_of
from goqueue.edge.rest.errors import brief, problem
from goqueue.edge.rest.operations import Param, RestOperation, json
from goqueue.edge.rest.requests import Bodies, Query, decode, number, while_connected
from goqueue.edge.rest.translate import cursor_in, cursor_out, messages_in, messages_out, place_in
from goqueue.service.browse import Browsing
from goqueue.service.front import Front, answer_of
from goqueue.service.health import Health
from goqueue.service.metrics import BrokerMetrics
from goqueue.service.publish import Publish, first_error

_OFFSET_MAX = 2**63 - 1
_PARTITION_MAX = 2**31 - 1
_TAIL_BATCH = 500
_TAIL_BEAT_MS = 15_000

_ISOLATION = Param("isolation", "`read_committed` (default) or `read_uncommitted`.")
_READ_PARAMS = (
    Param("limit", "At most this many messages, 1 to 10,000.", "integer"),
    Param("timeout", "Wait this long for the first message, like `10s`."),
    _ISOLATION,
)


class MessageRoutes:
    def __init__(
        self,
        publish: Front[Publish],
        browsing: Front[Browsing],
        health: Front[Health],
        metrics: BrokerMetrics,
        bodies: Bodies,
        settings: RestSettings,
    ) -> None:
        self._publish = publish
        self._browsing = browsing
        self._health = health
        self._metrics = metrics
        self._bodies = bodies
        self._poll_ms_max = settings.poll_ms_max
        self._tails = 0
        self._making = asyncio.Semaphore(LARGE_PAGES_MAX)

    def operations(self) -> list[RestOperation]:
        tag, topic = "messages", "/topics/{topic}"
        start = Param("from", "`earliest` (default), `latest`, a point in time, or a cursor.")
        offset = Param("offset", "First offset to read; wins over `from`.", "integer")
        tail = (
            Param("from", "Where to begin; default `latest`."),
            Param("partition", "Only this one.", "integer"),
            _ISOLATION,
        )
        return [
            RestOperation(
                "POST", f"{topic}/messages", self.publish, "Publish messages", tag, PublishOut, 200, PublishIn
            ),
            RestOperation(
                "GET",
                f"{topic}/messages",
                self.read_topic,
                "Read all partitions",
                tag,
                TopicPageOut,
                params=(start, *_READ_PARAMS),
            ),
            RestOperation(
                "GET",
                f"{topic}/partitions/{{partition}}/messages",
                self.read_partition,
                "Read one partition",
                tag,
                PartitionPageOut,
                params=(offset, start, *_READ_PARAMS),
            ),
            RestOperation(
                "GET",
                f"{topic}/tail",
                self.tail,
                "Follow live (server-sent events)",
                tag,
                MessageOut,
                params=tail,
                media_type="text/event-stream",
            ),
        ]

    # --- publish -------------------------------------------------------------------------------------------

    async def publish(self, request: Request) -> Response:
        Query(request)
        async with self._bodies.read(request) as body:
            given, caller = decode(body, PublishIn), caller_of(request)
            messages = await messages_in(given.messages, request)
            command = PublishMessages(request.path_params["topic"], messages, Acks(given.acks), caller)
            results = await self._publish.by(caller).messages(command)
        failed = first_error(results)
        if failed is not None and all(isinstance(result, GoQueueError) for result in results):
            return problem(failed)
        if failed is None and all(isinstance(result, StoredAt) for result in results):
            return json({"results": results})
        return json(PublishOut([result_out(result) for result in results]), 200 if failed is None else 207)

    # --- read ----------------------------------------------------------------------------------------------

    async def read_partition(self, request: Request) -> Response:
        query = Query(request, "offset", "from", "limit", "timeout", "isolation")
        topic = request.path_params["topic"]
        partition = number(request.path_params["partition"], "partition", 0, _PARTITION_MAX)
        self._browsing.by(caller_of(request)).check_partition(topic, partition)
        if query.has("offset"):
            offset = query.number("offset", 0, 0, _OFFSET_MAX)
        else:
            start = await self._start(caller_of(request), topic, query.text("from", "earliest"), query.isolation())
            offset = _of_partition(start, partition)

        async def show(page: MessagePage, messages: list[MessageOut]) -> PartitionPageOut:
            end = await answer_of(self._browsing.by(caller_of(request)).high_watermark(topic, partition))
            return PartitionPageOut(messages, page.next_offsets[partition], end, list(page.skipped))

        return await self._page(request, self._browse(caller_of(request), query, topic, {partition: offset}), show)

    async def read_topic(self, request: Request) -> Response:
        query = Query(request, "from", "limit", "timeout", "isolation")
        topic = request.path_params["topic"]
        offsets = await self._start(caller_of(request), topic, query.text("from", "earliest"), query.isolation())

        async def show(page: MessagePage, messages: list[MessageOut]) -> TopicPageOut:
            return TopicPageOut(messages, page.next_offsets, cursor_out(page.next_offsets), list(page.skipped))

        return await self._page(request, self._browse(caller_of(request), query, topic, offsets), show)

    async def _page(
        self, request: Request, wanted: Browse, show: Callable[[MessagePage, list[MessageOut]], Awaitable[Any]]
    ) -> Response:
        """A page takes several times its size while it is made, so few large ones are made at once."""
        if wanted.wait_ms_max:
            await while_connected(request, self._browsing.by(caller_of(request)).read(replace(wanted, limit=1)))
        wanted = replace(wanted, wait_ms_max=0)
        page = await self._browsing.by(caller_of(request)).read(replace(wanted, bytes_max=SMALL_PAGE_BYTES_MAX))
        if not page.is_full or len(page.messages) >= wanted.limit:
            return json(await show(page, await messages_out(page.messages)))
        async with self._making:
            page = await self._read_on(caller_of(request), wanted, page)
            return json(await show(page, await messages_out(page.messages)))

    async def _read_on(self, caller: Caller, wanted: Browse, page: MessagePage) -> MessagePage:
        left, room = wanted.limit - len(page.messages), wanted.bytes_max - SMALL_PAGE_BYTES_MAX
        try:
            more = await self._browsing.by(caller).read(
                replace(wanted, offsets=page.next_offsets, limit=left, bytes_max=room)
            )
        except GoQueueError:
            return page  # the reader meets it with its next page, as it would have
        messages, skipped = [*page.messages, *more.messages], [*page.skipped, *more.skipped]
        return MessagePage(messages, more.next_offsets, skipped, more.is_full)

    def _browse(self, caller: Caller, query: Query, topic: str, offsets: dict[int, Offset]) -> Browse:
        limit = query.number("limit", 100, 1, MESSAGES_PER_READ_MAX)
        wait_ms = query.duration_ms("timeout", self._poll_ms_max)
        return Browse(topic, offsets, limit, wait_ms, query.isolation(), caller)

    async def _start(self, caller: Caller, topic: str, text: str, isolation: Isolation) -> dict[int, Offset]:
        place = place_in(text)
        if not isinstance(place, dict):
            return await self._browsing.by(caller).offsets_from(topic, place, isolation)
        for partition in place:
            self._browsing.by(caller).check_partition(topic, partition)
        return place

    # --- tail ----------------------------------------------------------------------------------------------

    async def tail(self, request: Request) -> Response:
        query = Query(request, "from", "partition", "isolation")
        isolation = query.isolation()
        topic = request.path_params["topic"]
        self._browsing.by(caller_of(request)).check_readable(topic)
        resumed = request.headers.get("last-event-id")
        if resumed is not None:
            offsets = await self._start(
                caller_of(request), topic, cursor_out(cursor_in(resumed, "Last-Event-ID")), isolation
            )
        else:
            offsets = await self._start(caller_of(request), topic, query.text("from", "latest"), isolation)
        if query.has("partition"):
            one = query.number("partition", 0, 0, _PARTITION_MAX)
            self._browsing.by(caller_of(request)).check_partition(topic, one)
            offsets = {one: _of_partition(offsets, one)}
        if self._tails >= TAILS_MAX:
            raise Overloaded(f"{TAILS_MAX} live tails are open already; close one or read by pages.")
        headers = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
        return StreamingResponse(
            self._events(caller_of(request), topic, offsets, isolation), 200, headers, "text/event-stream"
        )

    async def _events(
        self, caller: Caller, topic: str, offsets: dict[int, Offset], isolation: Isolation
    ) -> AsyncIterator[bytes]:
        """Ends when the reader leaves, the node stops, or reading fails; the last event then says why."""
        self._tails += 1
        self._metrics.tails.inc()
        try:
            # The first id comes before the first message: who reconnects early begins at the same place.
            yield f": tail of {topic}\nid: {cursor_out(offsets)}\n\n".encode()
            while not self._health.by(caller).stopping:
                wanted = Browse(topic, offsets, _TAIL_BATCH, _TAIL_BEAT_MS, isolation, caller, SMALL_PAGE_BYTES_MAX)
                page = await self._browsing.by(caller).read(wanted)
                yield _frames(await messages_out(page.messages), list(page.skipped), dict(offsets))
                offsets = page.next_offsets
                await asyncio.sleep(0)  # a tail that is far behind must not hold up the node
        except GoQueueError as error:
            yield b"event: error\ndata: " + msgspec.json.encode({**brief(error), **error.detail}) + b"\n\n"
        finally:
            self._tails -= 1
            self._metrics.tails.dec()


def _of_partition(offsets: dict[int, Offset], partition: int) -> Offset:
    if partition not in offsets:
        raise InvalidField(f"The cursor does not say where to read partition {partition}.", field="from")
    return offsets[partition]


def _frames(messages: list[MessageOut], skipped: list[SkippedOffsets], offsets: dict[int, Offset]) -> bytes:
    """One event a message, each with the cursor behind it; a comment if there are none, to show the line is alive.

    What was passed over is an event too, in its place.
    """
    if not messages and not skipped:
        return b": still here\n\n"
    frames: list[bytes] = []
    left = list(skipped)
    for message in messages:
        before = [one for one in left if one.partition == message.partition and one.first_offset < message.offset]
        frames += [_frame(b"skipped", one, one.partition, one.last_offset, offsets) for one in before]
        left = [one for one in left if one not in before] if before else left
        frames.append(_frame(b"message", message, message.partition, message.offset, offsets))
    frames += [_frame(b"skipped", one, one.partition, one.last_offset, offsets) for one in left]
    return b"".join(frames)


def _frame(
    kind: bytes, told: MessageOut | SkippedOffsets, partition: int, last: Offset, offsets: dict[int, Offset]
) -> bytes:
    offsets[partition] = last + 1
    return b"id: %s\nevent: %s\ndata: %s\n\n" % (cursor_out(offsets).encode(), kind, msgspec.json.encode(told))


def result_out(result: PublishResult) -> ResultOut:
    if isinstance(result, StoredAt):
        return ResultOut(result.partition, result.offset)
    if isinstance(result, ScheduledAt):
        address = result.offset if result.offset >= 0 else None  # in a transaction it has none before the commit
        return ResultOut(result.partition, None, address, time_text(result.deliver_at_ms))
    return ResultOut(error=ErrorOut(result.code, result.message, result.field))
