"""Where error words meet gRPC's statuses. The only such place."""

from __future__ import annotations

from typing import Final

import grpc
import msgspec
from google.protobuf import any_pb2, duration_pb2
from google.rpc import error_details_pb2, status_pb2

from goqueue.base import errors
from goqueue.edge.rest import errors as rest_errors
from goqueue.wire import goqueue_pb2 as pb

_Status = grpc.StatusCode

# The nearest class of an error word's line decides.
STATUS: Final[dict[type[errors.GoQueueError], grpc.StatusCode]] = {
    errors.Invalid: _Status.INVALID_ARGUMENT,
    errors.Forbidden: _Status.PERMISSION_DENIED,
    errors.Unauthenticated: _Status.UNAUTHENTICATED,
    errors.NotFound: _Status.NOT_FOUND,
    errors.UnknownRoute: _Status.UNIMPLEMENTED,
    errors.Conflict: _Status.FAILED_PRECONDITION,
    errors.TopicExists: _Status.ALREADY_EXISTS,
    errors.MetadataConflict: _Status.ABORTED,
    errors.TooLarge: _Status.INVALID_ARGUMENT,
    errors.Gone: _Status.OUT_OF_RANGE,
    errors.Damaged: _Status.DATA_LOSS,
    errors.Full: _Status.RESOURCE_EXHAUSTED,
    errors.Unavailable: _Status.UNAVAILABLE,
    errors.Overloaded: _Status.RESOURCE_EXHAUSTED,
    errors.Throttled: _Status.RESOURCE_EXHAUSTED,
    errors.RequestTooSlow: _Status.DEADLINE_EXCEEDED,
    errors.Startup: _Status.UNAVAILABLE,
}
DOMAIN: Final = "goqueue"
DETAILS: Final = "grpc-status-details-bin"
PROBLEM: Final = "problem"  # in ErrorInfo: the error as the REST API tells it
_PROBLEM_BYTES_MAX: Final = 2_000
_RETRY_S: Final = 1
_MAY_PASS: Final = frozenset({_Status.UNAVAILABLE, _Status.RESOURCE_EXHAUSTED})
_TEXT_MAX: Final = 1_000  # trailers have a limit of their own


def status_of(error: errors.GoQueueError) -> grpc.StatusCode:
    """The status of the nearest family."""
    return next(STATUS[kind] for kind in type(error).__mro__ if kind in STATUS)


def trailers(error: errors.GoQueueError) -> tuple[tuple[str, bytes], ...]:
    """The error as a `google.rpc.Status`, where clients look for it."""
    code = status_of(error)
    told = {name: str(value)[:_TEXT_MAX] for name, value in error.detail.items()}
    body = msgspec.json.encode({**rest_errors.brief(error), **error.detail, "status": rest_errors.status_of(error)})
    if len(body) <= _PROBLEM_BYTES_MAX:
        told[PROBLEM] = body.decode()
    details = [error_details_pb2.ErrorInfo(reason=error.code, domain=DOMAIN, metadata=told)]
    if error.field is not None:
        violation = error_details_pb2.BadRequest.FieldViolation(field=error.field[:_TEXT_MAX], description=error.code)
        details.append(error_details_pb2.BadRequest(field_violations=[violation]))
    if code in _MAY_PASS:
        wait_ms = error.detail.get("retry_ms")
        seconds, ms = divmod(wait_ms, 1_000) if isinstance(wait_ms, int) else (_RETRY_S, 0)
        delay = duration_pb2.Duration(seconds=seconds, nanos=ms * 1_000_000)
        details.append(error_details_pb2.RetryInfo(retry_delay=delay))
    status = status_pb2.Status(code=code.value[0], message=text(error))
    status.details.extend(map(_packed, details))
    return ((DETAILS, status.SerializeToString()),)


def text(error: errors.GoQueueError) -> str:
    return error.message[:_TEXT_MAX]


def brief(error: errors.GoQueueError) -> pb.Error:
    """Word, sentence and field: what a single message's result carries."""
    return pb.Error(code=error.code, message=error.message, field=error.field or "")


def _packed(detail: object) -> any_pb2.Any:
    found = any_pb2.Any()
    found.Pack(detail)
    return found
