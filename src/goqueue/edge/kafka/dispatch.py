"""Finds the handler of a frame's request, and encodes its answer."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Mapping
from functools import partial
from typing import Any, Final

from goqueue.base.limits import MIB
from goqueue.drive.offload import Offload
from goqueue.edge.kafka.calls import ConnectionEnd, Exclusive, Handler, KafkaCall, KafkaPeer
from goqueue.edge.kafka.connection import Answered, Later
from goqueue.edge.kafka.quotas import KafkaThrottle
from goqueue.edge.kafka.slices import PRODUCE, answer_in_slices, at_once, elements_max
from goqueue.edge.kafka.tenants import for_tenant
from goqueue.service.metrics import BrokerMetrics, Histogram
from goqueue.service.quotas import ClientQuotas
from goqueue.wire.api import APIS, Api, RequestHeader, decode_header
from goqueue.wire.errors import TooManyElements, WireError
from goqueue.wire.frames import encode_response_frame
from goqueue.wire.messages.produce import ProduceRequest

API_VERSIONS: Final = 18
# Small structs unfold to many times their size; only a produce has reason to be large.
SMALL_REQUEST_BYTES: Final = 8 * MIB
UNFOLDED: Final = 32  # times its bytes that a request takes while it is answered; a produce is in the log by then
UNFOLDED_BYTES_MAX: Final = 32 * MIB


class Dispatcher:
    """Small requests are begun at once; large ones are decoded off the loop and answered in parts."""

    def __init__(
        self, handlers: Mapping[int, Handler], metrics: BrokerMetrics, offload: Offload, quotas: ClientQuotas
    ) -> None:
        self._quotas = quotas
        self._handlers = handlers
        self._requests = {key: metrics.kafka_requests.labels(APIS[key].name) for key in handlers}
        self._metrics = metrics
        self._seconds: dict[int, Histogram] = {}
        self._at_once = {key: at_once(APIS[key]) for key in handlers}
        self._offload = offload
        self._large = asyncio.Semaphore(1)  # of all connections: one is decoded or encoded at a time

    def __call__(
        self, frame: memoryview, peer: KafkaPeer, local: tuple[str, int], end: ConnectionEnd
    ) -> Answered | Later:
        started = time.perf_counter()
        header, at = decode_header(frame)
        api = APIS[header.api_key]
        handler = self._handlers.get(api.key)
        if handler is None:
            raise WireError(f"{api.name} is not supported")
        if peer.caller.tenant:
            handler = for_tenant(handler)
        if api.key != PRODUCE and len(frame) > SMALL_REQUEST_BYTES:
            raise WireError(f"{api.name} of {len(frame)} bytes is larger than any sensible one")
        version = header.api_version
        if not api.min_version <= version <= api.max_version:
            return self._other_version(api, header, KafkaCall(-1, header.client_id or "", peer, local, end), handler)
        call = KafkaCall(version, header.client_id or "", peer, local, end)
        self._requests[api.key].inc()
        if self._quotas.is_set:
            return self._answer_throttled(api, call, handler, frame, at, header.correlation_id, started)
        try:
            request = api.decode_request(version, frame, at, self._at_once[api.key])
        except TooManyElements:
            held = min(len(frame) * UNFOLDED, len(frame) + UNFOLDED_BYTES_MAX)
            work = self._answer_large(api, call, handler, frame, at, header.correlation_id, started)
            return Later(work, held, is_exclusive=True)
        answer = handler(call, request)
        if answer is None:
            return None
        if hasattr(answer, "__await__"):
            is_exclusive = isinstance(answer, Exclusive)
            held = len(frame) * (max(is_exclusive, _unfolded(request)) if api.key == PRODUCE else UNFOLDED)
            return Later(self._later(api, version, header.correlation_id, answer, started), held, is_exclusive)
        self._count(api, answer, started)
        return encode_response_frame(api, version, header.correlation_id, answer)

    def _count(self, api: Api, response: Any, started: float) -> None:
        seconds = self._seconds.get(api.key)
        if seconds is None:
            seconds = self._seconds[api.key] = self._metrics.kafka_request_seconds.labels(api.name)
        seconds.observe(time.perf_counter() - started)
        code = getattr(response, "error_code", 0)
        if code:
            self._metrics.kafka_errors.labels(api.name, str(code)).inc()

    def _answer_throttled(
        self,
        api: Api,
        call: KafkaCall,
        handler: Handler,
        frame: memoryview,
        at: int,
        correlation_id: int,
        started: float,
    ) -> Answered | Later:
        """The same where there are quotas."""
        throttle = KafkaThrottle(self._quotas, api, call, len(frame))
        try:
            request = api.decode_request(call.version, frame, at, self._at_once[api.key])
        except TooManyElements:
            throttle.mute()
            held = min(len(frame) * UNFOLDED, len(frame) + UNFOLDED_BYTES_MAX)
            work = self._answer_large(api, call, handler, frame, at, correlation_id, started)
            return Later(work, held, is_exclusive=True)
        answer = handler(call, request)
        if answer is None:
            throttle.mute()
            return None
        if not hasattr(answer, "__await__"):
            self._count(api, answer, started)
            return throttle.encode(correlation_id, answer)
        is_exclusive = isinstance(answer, Exclusive)
        held = len(frame) * (max(is_exclusive, _unfolded(request)) if api.key == PRODUCE else UNFOLDED)
        return Later(self._later_throttled(throttle, api, correlation_id, answer, started), held, is_exclusive)

    async def _later_throttled(
        self, throttle: KafkaThrottle, api: Api, correlation_id: int, answer: Awaitable[Any], started: float
    ) -> Answered:
        response = await answer
        self._count(api, response, started)
        if response is None:
            throttle.mute()
            return None
        return throttle.encode(correlation_id, response)

    def _other_version(self, api: Api, header: RequestHeader, call: KafkaCall, handler: Handler) -> Answered:
        """A client that is newer than the broker is told what there is, in the oldest form."""
        if api.key != API_VERSIONS:
            raise WireError(f"{api.name} version {header.api_version} is not supported")
        return encode_response_frame(api, 0, header.correlation_id, handler(call, None))

    async def _later(
        self, api: Api, version: int, correlation_id: int, answer: Awaitable[Any], started: float
    ) -> Answered:
        response = await answer
        self._count(api, response, started)
        return None if response is None else encode_response_frame(api, version, correlation_id, response)

    async def _answer_large(
        self,
        api: Api,
        call: KafkaCall,
        handler: Handler,
        frame: memoryview,
        at: int,
        correlation_id: int,
        started: float,
    ) -> Answered:
        async with self._large:
            request = await self._offload(lambda: api.decode_request(call.version, frame, at, elements_max(api)))
        response = await answer_in_slices(api, call, handler, request)
        self._count(api, response, started)
        if response is None:
            return None
        async with self._large:
            return await self._offload(partial(encode_response_frame, api, call.version, correlation_id, response))


def _unfolded(request: ProduceRequest) -> int:
    """A produce that is not answered yet is in the log, but for one that waits for its transaction."""
    return 0 if request.transactional_id is None else 1
