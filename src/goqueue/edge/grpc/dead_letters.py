"""Dead letters, and their way back."""

from __future__ import annotations

from typing import Final

from goqueue.base.errors import InvalidField, UnknownRedrive
from goqueue.base.limits import MESSAGES_PER_READ_MAX, REDRIVE_RATE_MAX
from goqueue.core.dead_letter import DeadLetterFilter, StoredDeadLetter
from goqueue.core.redrive import RedriveTask
from goqueue.edge.grpc.calls import GrpcCall, GrpcMethod
from goqueue.edge.grpc.convert import made
from goqueue.edge.grpc.delayed import address_in
from goqueue.edge.grpc.translate import headers_out, number_in
from goqueue.service.dead_letter_view import DeadLetterView, cursor_of
from goqueue.service.dead_letters import Redrives
from goqueue.service.front import Front, answer_of
from goqueue.wire import goqueue_pb2 as pb

_SERVICE: Final = "goqueue.v1.DeadLetters"
_LIMIT: Final = 100
_HEADERS_MAX: Final = 20


class DeadLetterMethods:
    def __init__(self, letters: Front[DeadLetterView], redrives: Front[Redrives]) -> None:
        self._letters = letters
        self._redrives = redrives

    def methods(self) -> list[GrpcMethod]:
        return [
            GrpcMethod(f"{_SERVICE}/ListDeadLetters", pb.ListDeadLettersRequest, self.list),
            GrpcMethod(f"{_SERVICE}/GetDeadLetter", pb.GetDeadLetterRequest, self.get),
            GrpcMethod(f"{_SERVICE}/DeleteDeadLetter", pb.DeleteDeadLetterRequest, self.delete),
            GrpcMethod(f"{_SERVICE}/StartRedrive", pb.StartRedriveRequest, self.start),
            GrpcMethod(f"{_SERVICE}/ListRedrives", pb.ListRedrivesRequest, self.redrives),
            GrpcMethod(f"{_SERVICE}/GetRedrive", pb.GetRedriveRequest, self.redrive),
            GrpcMethod(f"{_SERVICE}/CancelRedrive", pb.CancelRedriveRequest, self.cancel),
        ]

    async def list(self, request: pb.ListDeadLettersRequest, call: GrpcCall) -> pb.ListDeadLettersResponse:
        letters, topic = self._letters.by(call.caller), request.topic
        limit = number_in(request.limit or _LIMIT, "limit", 1, MESSAGES_PER_READ_MAX)
        cursor = cursor_of(request.cursor) if request.cursor else None
        if request.cursor and cursor is None:
            raise InvalidField("That is not a cursor; send `next` of the page before.", field="cursor")
        page = await letters.page(topic, _filter_in(request.filter, topic), cursor, limit)
        after = None if page.next is None else f"{page.next[0]}:{page.next[1]}"
        shown = [_letter(one) for one in page.letters]
        return pb.ListDeadLettersResponse(topic=letters.home_of(topic), letters=shown, next=after)

    async def get(self, request: pb.GetDeadLetterRequest, call: GrpcCall) -> pb.DeadLetter:
        return _letter(await self._letters.by(call.caller).show(*address_in(request)))

    async def delete(self, request: pb.DeleteDeadLetterRequest, call: GrpcCall) -> pb.DeleteDeadLetterResponse:
        await self._letters.by(call.caller).delete(*address_in(request))
        return pb.DeleteDeadLetterResponse()

    # --- redrive ---------------------------------------------------------------------------------------------

    async def start(self, request: pb.StartRedriveRequest, call: GrpcCall) -> pb.Redrive:
        rate = (
            number_in(request.rate_per_s, "rate_per_s", 1, REDRIVE_RATE_MAX) if request.HasField("rate_per_s") else None
        )
        limit = number_in(request.limit, "limit", 1, 2**53) if request.HasField("limit") else None
        to = request.to if request.HasField("to") else None
        home, chosen = self._letters.by(call.caller).home_of(request.topic), _filter_in(request.filter, request.topic)
        return _task(await self._redrives.by(call.caller).start(home, to, rate, chosen, limit))

    async def redrives(self, request: pb.ListRedrivesRequest, call: GrpcCall) -> pb.ListRedrivesResponse:
        home = self._letters.by(call.caller).home_of(request.topic)
        found = await answer_of(self._redrives.by(call.caller).tasks(home))
        return pb.ListRedrivesResponse(redrives=[_task(one) for one in found])

    async def redrive(self, request: pb.GetRedriveRequest, call: GrpcCall) -> pb.Redrive:
        return _task(await self._of_topic(request, call))

    async def cancel(self, request: pb.CancelRedriveRequest, call: GrpcCall) -> pb.Redrive:
        task = await self._of_topic(request, call)
        return _task(await self._redrives.by(call.caller).cancel(task.id))

    async def _of_topic(self, request: pb.GetRedriveRequest | pb.CancelRedriveRequest, call: GrpcCall) -> RedriveTask:
        task = await answer_of(self._redrives.by(call.caller).find(request.id))
        if task.source != self._letters.by(call.caller).home_of(request.topic):
            raise UnknownRedrive("That redrive is another topic's.", field="id")
        return task


def _filter_in(wanted: pb.DeadLetterFilter, topic: str) -> DeadLetterFilter:
    if len(wanted.headers) > _HEADERS_MAX:
        raise InvalidField(f"At most {_HEADERS_MAX} headers.", field="filter.headers")

    def value(name: str) -> object:
        return getattr(wanted, name) if wanted.HasField(name) else None

    return DeadLetterFilter(
        topic,
        value("reason"),  # type: ignore[arg-type]
        value("group"),  # type: ignore[arg-type]
        value("since_ms"),  # type: ignore[arg-type]
        value("until_ms"),  # type: ignore[arg-type]
        tuple(wanted.headers.items()),
    )


def _letter(letter: StoredDeadLetter) -> pb.DeadLetter:
    shown = made(
        pb.DeadLetter,
        letter,
        headers=headers_out(letter.headers),
        error=letter.text,
        first_delivered_ms=letter.first_ms,
    )
    if letter.topic is not None and letter.origin_partition is not None and letter.origin_offset is not None:
        shown.origin.CopyFrom(
            made(pb.DeadLetterOrigin, letter, partition=letter.origin_partition, offset=letter.origin_offset)
        )
    return shown


def _task(task: RedriveTask) -> pb.Redrive:
    return made(pb.Redrive, task)
