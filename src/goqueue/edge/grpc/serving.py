"""Serves a table of methods: finds who calls, holds requests within their limits, maps errors, counts.

Requests come as bytes and are decoded here, after their size is known to fit.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Final
from urllib.parse import unquote

import grpc
from google.protobuf.message import Message

from goqueue.base.commands import Caller, anonymous
from goqueue.base.errors import GoQueueError, ShuttingDown
from goqueue.base.grpc_settings import GrpcSettings
from goqueue.base.quotas import BYTES_IN, BYTES_OUT
from goqueue.drive.carry_on import carry_on
from goqueue.edge.grpc.calls import GrpcCall, GrpcMethod
from goqueue.edge.grpc.convert import decoded
from goqueue.edge.grpc.errors import status_of, text, trailers
from goqueue.edge.grpc.metering import CallMeter
from goqueue.edge.grpc.room import ByteRoom
from goqueue.edge.security.http_login import CALLER, CERTIFICATE, HttpLogin
from goqueue.service.metrics import BrokerMetrics
from goqueue.service.quotas import ClientQuotas

logger = logging.getLogger(__name__)

DOOR: Final = "grpc"
_INTERNAL: Final = "The node failed to answer; its log has the reason."
_HANDLERS: Final = {
    "unary": grpc.unary_unary_rpc_method_handler,
    "requests": grpc.stream_unary_rpc_method_handler,
    "answers": grpc.unary_stream_rpc_method_handler,
    "both": grpc.stream_stream_rpc_method_handler,
}


class Serving:
    """All methods of the door. Belongs to the loop."""

    def __init__(
        self,
        settings: GrpcSettings,
        wait_ms_max: int,
        metrics: BrokerMetrics,
        login: HttpLogin | None,
        by_subject: bool,
        quotas: ClientQuotas,
    ) -> None:
        """Without a `login` everybody is let in. `by_subject`: clients are called by the whole subject of their
        certificates, which gRPC does not tell; then these say nothing."""
        self._by_subject = by_subject
        self._quotas = quotas
        self._login = login
        self._turns = None if login is None else login.turns
        self._wait_ms_max = wait_ms_max
        self._metrics = metrics
        total = settings.request_bytes_total_max
        self._requests_room = ByteRoom(total, "Too many requests are under way; try again in a moment.")
        total = settings.answer_bytes_total_max
        self._answers_room = ByteRoom(total, "Too many answers wait for their readers; try again in a moment.")
        self._reading: set[asyncio.Task[Any]] = set()  # wait for the next request of a stream
        self._is_stopping = False

    def handlers(self, methods: Iterable[GrpcMethod]) -> list[grpc.GenericRpcHandler]:
        by_service: dict[str, dict[str, grpc.RpcMethodHandler]] = defaultdict(dict)
        for method in methods:
            service, _, name = method.name.rpartition("/")
            serve = self._unary(method) if method.kind in ("unary", "requests") else self._streaming(method)
            by_service[service][name] = _HANDLERS[method.kind](serve)
        return [grpc.method_handlers_generic_handler(service, found) for service, found in by_service.items()]

    def stop(self) -> None:
        """Streams on which nothing comes end."""
        self._is_stopping = True
        for task in list(self._reading):
            task.cancel()

    # --- one call --------------------------------------------------------------------------------------------

    def _unary(self, method: GrpcMethod) -> Callable[[Any, grpc.aio.ServicerContext], Awaitable[bytes]]:
        async def serve(given: Any, context: grpc.aio.ServicerContext) -> bytes:
            async def work(call: GrpcCall) -> bytes:
                meter = self._meter(method, call)
                if method.kind == "requests":
                    answer = _bytes(await method.handler(self._decoded(method, given, call, meter), call))
                else:
                    meter.charge(BYTES_IN, len(given))
                    with self._requests_room.held(len(given)):
                        handling = method.handler(decoded(method.request, given), call)
                        answer = _bytes(await (handling if method.is_wait else carry_on(handling)))  # type: ignore[arg-type]
                meter.charge(BYTES_OUT, len(answer))
                return answer

            answer: bytes = await self._answer(method, context, work)
            return answer

        return serve

    def _streaming(self, method: GrpcMethod) -> Callable[[Any, grpc.aio.ServicerContext], Awaitable[None]]:
        async def serve(given: Any, context: grpc.aio.ServicerContext) -> None:
            writing = asyncio.Lock()

            async def work(call: GrpcCall) -> None:
                meter = self._meter(method, call)

                async def send(message: Message) -> None:
                    data = _bytes(message)
                    with self._answers_room.held(len(data)):
                        async with writing:
                            await context.write(data)
                    await meter.wait(BYTES_OUT, len(data))

                if method.kind == "both":
                    await method.handler(self._decoded(method, given, call, meter), call, send)
                else:
                    meter.charge(BYTES_IN, len(given))
                    await method.handler(decoded(method.request, given), call, send)

            streams = self._metrics.grpc_streams
            streams.inc()
            try:
                await self._answer(method, context, work)
            finally:
                streams.dec()

        return serve

    async def _answer(
        self, method: GrpcMethod, context: grpc.aio.ServicerContext, work: Callable[[GrpcCall], Awaitable[Any]]
    ) -> Any:
        started, status = time.perf_counter(), grpc.StatusCode.CANCELLED
        try:
            found = await self._let_in(method, context, work)
            status = grpc.StatusCode.OK
            return found
        except GoQueueError as error:
            status = status_of(error)
            await context.abort(status, text(error), trailers(error))
        except asyncio.CancelledError:
            raise
        except Exception:
            status = grpc.StatusCode.INTERNAL
            logger.exception("request failed", extra={"operation": method.name})
            await context.abort(status, _INTERNAL)
        finally:
            self._count(method, status, time.perf_counter() - started)

    async def _let_in(
        self, method: GrpcMethod, context: grpc.aio.ServicerContext, work: Callable[[GrpcCall], Awaitable[Any]]
    ) -> Any:
        """In the name of whoever asks, as the doors over HTTP do it."""
        metadata = list(context.invocation_metadata() or ())
        host = host_of(context.peer())

        certificate = None if self._by_subject else certificate_of(context.auth_context())

        def call(caller: Caller) -> GrpcCall:
            return GrpcCall(caller, metadata, context.time_remaining(), self._wait_ms_max, certificate)

        if self._login is None or method.is_public:
            return await work(call(anonymous(DOOR, host)))
        headers = [(name.encode(), value.encode()) for name, value in metadata if isinstance(value, str)]
        scope: dict[str, Any] = {"headers": headers, "client": (host, 0), CERTIFICATE: certificate}
        return await self._login.serve(scope, lambda: work(call(scope[CALLER])))

    def _meter(self, method: GrpcMethod, call: GrpcCall) -> CallMeter:
        """`Throttled` if the caller has to wait first. Whoever watches a node is never told to."""
        if method.is_public:
            return CallMeter(None, call.caller)
        meter = CallMeter(self._quotas, call.caller)
        meter.admit()
        return meter

    async def _decoded(
        self, method: GrpcMethod, given: AsyncIterator[bytes], call: GrpcCall, meter: CallMeter
    ) -> AsyncIterator[Message]:
        while (data := await self._next(given)) is not None:
            with self._requests_room.held(len(data)):
                if self._turns is not None:
                    await self._turns.turn(call.caller)
                yield decoded(method.request, data)
            await meter.wait(BYTES_IN, len(data))

    async def _next(self, given: AsyncIterator[bytes]) -> bytes | None:
        """None at the end."""
        task = asyncio.current_task()
        assert task is not None
        self._check_running()
        self._reading.add(task)
        try:
            return await anext(given, None)
        except asyncio.CancelledError:
            if self._is_stopping and not task.uncancel():
                self._check_running()
            raise
        finally:
            self._reading.discard(task)

    def _check_running(self) -> None:
        if self._is_stopping:
            raise ShuttingDown("The node is stopping.")

    def _count(self, method: GrpcMethod, status: grpc.StatusCode, seconds: float) -> None:
        self._metrics.grpc_requests.labels(method.name, status.name).inc()
        self._metrics.grpc_request_seconds.labels(method.name).observe(seconds)


def certificate_of(shown: Mapping[str, Sequence[bytes]]) -> dict[str, Any] | None:
    """As `ssl` tells it; of its subject the common name alone is known here."""
    names, others = shown.get("x509_common_name", ()), shown.get("x509_subject_alternative_name", ())
    if not names and not others:
        return None
    subject = tuple((("commonName", one.decode("utf-8", "replace")),) for one in names)
    return {"subject": subject, "subjectAltName": tuple(("", one.decode("utf-8", "replace")) for one in others)}


def host_of(peer: str) -> str:
    """Of `ipv4:127.0.0.1:5000` or `ipv6:%5B::1%5D:5000`."""
    kind, _, address = peer.partition(":")
    return unquote(address).rpartition(":")[0].strip("[]") if kind in ("ipv4", "ipv6") else ""


def _bytes(message: Message) -> bytes:
    data: bytes = message.SerializeToString()
    return data
