"""What a gRPC call that failed means, in the client's words."""

from __future__ import annotations

from typing import Final

import grpc
import msgspec
from google.rpc import error_details_pb2, status_pb2

from goqueue.client.errors import ConnectionFailed, GoQueueClientError, TimedOut, error_of_problem

_DETAILS: Final = "grpc-status-details-bin"
_PROBLEM: Final = "problem"
# What gRPC says where it never had a connection to send the request on.
_UNSENT: Final = ("failed to connect", "connections to all backends failing", "DNS resolution failed", "empty address")


def failure_of(error: grpc.RpcError, url: str) -> GoQueueClientError:
    """The broker's own word if it said one."""
    info, message, field = _told(error)
    if problem := info.metadata.get(_PROBLEM):
        told = msgspec.json.decode(problem)
        return error_of_problem(told.get("status"), told)
    if info.reason:
        return GoQueueClientError(info.reason, message, field, extra=dict(info.metadata))
    code, said = error.code(), error.details() or ""
    if code is grpc.StatusCode.UNAVAILABLE or (code is grpc.StatusCode.CANCELLED and not error.trailing_metadata()):
        return _unreachable(said, url)
    if code is grpc.StatusCode.DEADLINE_EXCEEDED:
        return TimedOut(f"{url} did not answer in time; the request may have been done. Look before repeating it.")
    if code is grpc.StatusCode.RESOURCE_EXHAUSTED and "larger than max" in said:
        return GoQueueClientError("message-too-large", f"{url} takes no message of that size ({said}).", None, 413)
    if code is grpc.StatusCode.RESOURCE_EXHAUSTED:
        return GoQueueClientError("overloaded", f"{url} has too much to do ({said}); try again.", None, 503)
    return GoQueueClientError(f"grpc-{code.name.lower().replace('_', '-')}", f"{url} answered: {said}.")


def _told(error: grpc.RpcError) -> tuple[error_details_pb2.ErrorInfo, str, str | None]:
    shown = dict(error.trailing_metadata() or ()).get(_DETAILS, b"")
    status = status_pb2.Status.FromString(shown)
    info, fields = error_details_pb2.ErrorInfo(), error_details_pb2.BadRequest()
    for detail in status.details:
        detail.Unpack(info) or detail.Unpack(fields)
    field = fields.field_violations[0].field if fields.field_violations else None
    return info, status.message, field


def _unreachable(said: str, url: str) -> ConnectionFailed:
    if any(word in said for word in _UNSENT):
        detail = f"Cannot reach {url} ({said}). Start a broker with `goqueue serve`, or check the address."
        return ConnectionFailed(detail, may_have_arrived=False)
    detail = f"The connection to {url} broke ({said}); the request may have been done. Look before repeating it."
    return ConnectionFailed(detail, may_have_arrived=True, code="connection-lost")
