"""SQS's door as an ASGI application: finds the protocol and the operation, maps errors, counts.

JSON 1.0 is recognised by the header `X-Amz-Target`; everything else is the query protocol. Signatures are
checked where clients have to show who they are.
"""

from __future__ import annotations

import itertools
import logging
import re
import time
from collections.abc import Mapping
from typing import Any, Final

import msgspec
from prometheus_client import Counter, Histogram
from starlette.requests import ClientDisconnect, Request
from starlette.types import Receive, Scope, Send

from goqueue.base.commands import Caller
from goqueue.base.decoders import converted
from goqueue.base.entropy import Entropy, new_uuid
from goqueue.base.errors import ForeignOrigin, GoQueueError, UnknownHost
from goqueue.base.sqs_envelope import SENDER
from goqueue.edge.http.gate import refuse_other_sites
from goqueue.edge.http.guard import DoorGuard
from goqueue.edge.rest.requests import Bodies
from goqueue.edge.security.http_login import CALLER
from goqueue.edge.sqs import xml
from goqueue.edge.sqs.calls import Reply, SqsCall
from goqueue.edge.sqs.checks import trace_of_request
from goqueue.edge.sqs.errors import SqsError, missing, translate
from goqueue.edge.sqs.forms import parse_form
from goqueue.edge.sqs.operations import SqsOperation
from goqueue.edge.sqs.signatures import SqsLogin
from goqueue.service.metrics import BrokerMetrics

logger = logging.getLogger(__name__)

TARGET: Final = b"AmazonSQS."
_JSON: Final = (b"content-type", b"application/x-amz-json-1.0")
_XML: Final = (b"content-type", b"text/xml")
_HOST: Final = re.compile(rb"[a-zA-Z0-9._:\[\]-]{1,255}")
_CREDENTIAL: Final = re.compile(rb"Credential=([!-.0-~]{1,128})/")
_MISSING: Final = re.compile(r"Object missing required field `(.*?)`")
_UNKNOWN: Final = "unknown"

Answer = tuple[int, list[tuple[bytes, bytes]], bytes]  # status, headers, body


class SqsDoor:
    """The application."""

    def __init__(
        self,
        operations: Mapping[str, SqsOperation],
        bodies: Bodies,
        metrics: BrokerMetrics,
        entropy: Entropy,
        guard: DoorGuard[SqsLogin],
    ) -> None:
        self._operations = operations
        self._bodies = bodies
        self._metrics = metrics
        self._gate, self._connections, self._login = guard
        self._counted: dict[tuple[str, str], tuple[Counter, Histogram]] = {}
        self._ids = map(f"{new_uuid(entropy)[:23]}-{{:012x}}".format, itertools.count(1))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        started = time.perf_counter()
        visit = _Visit(scope, receive, next(self._ids))
        try:
            answer = await self._answer(visit, scope)
        except ClientDisconnect:
            return
        status, headers, body = answer
        headers += [(b"x-amzn-requestid", visit.request_id.encode()), (b"content-length", b"%d" % len(body))]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})
        self._count(visit, time.perf_counter() - started)

    def _count(self, visit: _Visit, seconds: float) -> None:
        key = (visit.operation, visit.error)
        children = self._counted.get(key)
        if children is None:
            requests, times = self._metrics.sqs_requests, self._metrics.sqs_request_seconds
            children = self._counted[key] = requests.labels(*key), times.labels(visit.operation)
        children[0].inc()
        children[1].observe(seconds)

    def _check(self, scope: Scope) -> None:
        """Pages of other sites may not use the queues at all, not even look."""
        try:
            self._gate.check(scope)
            refuse_other_sites(scope["headers"])
        except (UnknownHost, ForeignOrigin) as error:
            self._connections.count(error.code)
            raise
        self._connections.check_room()

    async def _answer(self, visit: _Visit, scope: Scope) -> Answer:
        try:
            self._check(scope)
            async with self._bodies.read(visit.request) as body:
                reply = await self._reply(visit, scope, body)
            return visit.reply(reply)
        except ClientDisconnect:
            raise
        except SqsError as error:
            return visit.fault(error)
        except GoQueueError as error:
            return visit.fault(translate(error))
        except Exception:
            logger.exception("request failed", extra={"operation": visit.operation})
            return visit.fault(SqsError("InternalFailure", "The node failed to answer; its log has the reason."))

    async def _reply(self, visit: _Visit, scope: Scope, body: bytes) -> Reply:
        async def work() -> Reply:
            operation, asked = visit.read(self._operations, body)
            return await operation.handler(asked, visit.call(len(body)))

        return await work() if self._login is None else await self._login.serve(scope, body, work)


class _Visit:
    """One request: what it said so far, and the form its answer takes."""

    def __init__(self, scope: Scope, receive: Receive, request_id: str) -> None:
        self._scope = scope
        self._receive = receive
        self.request = Request(scope, receive)
        self.request_id = request_id
        self.operation = _UNKNOWN
        self.error = "none"
        self._headers: dict[bytes, bytes] = dict(scope["headers"])
        self._target = self._headers.get(b"x-amz-target")

    # --- in ------------------------------------------------------------------------------------------------

    def read(self, operations: Mapping[str, SqsOperation], body: bytes) -> tuple[SqsOperation, Any]:
        """The operation and its request."""
        if self._target is not None:
            return self._read_json(operations, body)
        text = self._scope["query_string"] if self._scope["method"] == "GET" else body
        try:
            form = parse_form(text.decode())
        except UnicodeDecodeError:
            raise SqsError("MalformedInput", "The form is not text.") from None
        operation = self._find(operations, form.get("Action"))
        if path := self._scope["path"].strip("/"):
            form.setdefault("QueueUrl", path)
        return operation, self._convert(lambda: converted(form, operation.kind, strict=False))

    def _read_json(self, operations: Mapping[str, SqsOperation], body: bytes) -> tuple[SqsOperation, Any]:
        target = self._target or b""
        name = target[len(TARGET) :].decode("latin-1") if target.startswith(TARGET) else None
        operation = self._find(operations, name)
        return operation, self._convert(lambda: operation.decoder.decode(body or b"{}"))

    def _find(self, operations: Mapping[str, SqsOperation], name: object) -> SqsOperation:
        operation = operations.get(name) if isinstance(name, str) else None
        if operation is None:
            message = (
                f"The action {name[:100]} is not valid for this endpoint." if isinstance(name, str) else "No action."
            )
            raise SqsError("InvalidAction", message)
        self.operation = operation.name
        return operation

    def _convert(self, read: Any) -> Any:
        try:
            return read()
        except msgspec.ValidationError as error:
            if named := _MISSING.match(str(error)):
                raise missing(named[1]) from None
            raise SqsError("MalformedInput", f"The request cannot be understood: {error}.") from None
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise SqsError("MalformedInput", f"The body is not JSON: {error}.") from None

    def call(self, body_bytes: int) -> SqsCall:
        host = self._headers.get(b"host", b"")
        if not _HOST.fullmatch(host):
            address = self._scope.get("server") or ("127.0.0.1", 0)
            host = f"{address[0]}:{address[1]}".encode()
        trace = trace_of_request(self._headers.get(b"x-amzn-trace-id"))
        client = self._scope.get("client") or ("", 0)
        base_url = f"{self._scope['scheme']}://{host.decode('ascii')}"
        known: Caller | None = self._scope.get(CALLER)
        sender = self._sender() if known is None else known.principal
        return SqsCall(base_url, sender, self._gone, trace, client[0], known, body_bytes)

    def _sender(self) -> str:
        """The access key that the client says it has; nobody checks it."""
        found = _CREDENTIAL.search(self._headers.get(b"authorization", b""))
        return found[1].decode("ascii") if found else SENDER

    async def _gone(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass

    # --- out -----------------------------------------------------------------------------------------------

    def reply(self, reply: Reply) -> Answer:
        if self._target is not None:
            return 200, [_JSON], msgspec.json.encode(reply or {})
        return 200, [_XML], xml.answer(self.operation, reply, self.request_id)

    def fault(self, error: SqsError) -> Answer:
        fault, message = error.fault, error.message
        self.error = error.name
        if self._target is not None:
            body = msgspec.json.encode({"__type": fault.shape, "message": message})
            kind = "Sender" if fault.is_senders else "Receiver"
            return fault.status, [_JSON, (b"x-amzn-query-error", f"{fault.code};{kind}".encode())], body
        if error.name == "QueueDoesNotExist":
            message = "The specified queue does not exist for this wsdl version."
        return fault.status, [_XML], xml.fault(fault.code, message, fault.is_senders, self.request_id)
