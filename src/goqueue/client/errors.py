"""What can go wrong for a client. One family: what the broker refused, and what never got an answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec

from goqueue.api.messages import ErrorOut
from goqueue.base.decoders import converted, from_json

if TYPE_CHECKING:
    from goqueue.client.messages import Sent

_EXCERPT_CHARS: Final = 200


class GoQueueClientError(Exception):
    """The broker refused, or could not be asked. `code` is stable; `detail` is a sentence for people.

    `field` names the offending input, `status` is the HTTP status (None if there was no answer), and `extra` holds
    what else the broker said, like `start_offset` with `offset-out-of-range`.
    """

    def __init__(
        self,
        code: str,
        detail: str,
        field: str | None = None,
        status: int | None = None,
        extra: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(code, detail, field, status, extra)
        self.code = code
        self.detail = detail
        self.field = field
        self.status = status
        self.extra: Mapping[str, Any] = extra or {}

    def __str__(self) -> str:
        return f"{self.detail} ({self.code})"

    def __reduce__(self) -> tuple[Any, ...]:
        # Subclasses take other arguments; without this none of them could be copied or pass between processes.
        return type(self).__new__, (type(self), *self.args), self.__dict__


class WrongType(GoQueueClientError, TypeError):
    """An argument of a type that it cannot have; nothing was sent."""

    def __init__(self, detail: str, field: str) -> None:
        super().__init__("invalid-field", detail, field)


class ConnectionFailed(GoQueueClientError):
    """No answer. `may_have_arrived` says whether the broker may have received the request all the same."""

    def __init__(self, detail: str, *, may_have_arrived: bool, code: str = "connection-failed") -> None:
        super().__init__(code, detail)
        self.may_have_arrived = may_have_arrived


class TimedOut(ConnectionFailed):
    """The broker took longer to answer than the client waits; the request may have been done."""

    def __init__(self, detail: str) -> None:
        super().__init__(detail, may_have_arrived=True, code="timed-out")


class BufferFull(GoQueueClientError):
    """The producer's buffer had no room for as long as the caller wanted to wait; the message was not taken."""

    def __init__(self, detail: str) -> None:
        super().__init__("buffer-full", detail)


class ProducerClosed(GoQueueClientError):
    """The producer was closed before this message had a result."""

    def __init__(self) -> None:
        super().__init__("producer-closed", "The producer is closed; make a new one.")


class PartlyStored(GoQueueClientError):
    """Some messages of one publish were stored and some were not: `results` has one entry for each, in order."""

    def __init__(self, results: Sequence[Sent | GoQueueClientError]) -> None:
        failures = [result for result in results if isinstance(result, GoQueueClientError)]
        first = failures[0]
        detail = f"{len(failures)} of {len(results)} messages were not stored; the first says: {first.detail}"
        super().__init__("partly-stored", detail, first.field, 207)
        self.results = results


class NotStored(GoQueueClientError):
    """A producer ends, and nobody looked at the failure of some of its messages: `count` of them. `failures` has the
    first ones' errors."""

    def __init__(self, count: int, failures: Sequence[GoQueueClientError]) -> None:
        messages = "1 message was" if count == 1 else f"{count} messages were"
        detail = f"{messages} not stored; the first says: {failures[0].detail}"
        super().__init__("not-stored", detail, failures[0].field)
        self.count = count
        self.failures = failures


class ConsumerClosed(GoQueueClientError):
    """The consumer was closed and has left its group."""

    def __init__(self) -> None:
        super().__init__("consumer-closed", "The consumer is closed; make a new one.")


class MustJoinAgain(GoQueueClientError):
    """The consumer has to join its group again, which gives back what it holds, and was told to keep that."""

    def __init__(self) -> None:
        detail = "The consumer must join its group again. Answer for what it holds, then poll without `keep_held`."
        super().__init__("must-join-again", detail)


class PartlyAnswered(GoQueueClientError):
    """Only some messages of one ack, nack, reject or extend went well: `failures` says which did not, by receipt."""

    def __init__(self, failures: Mapping[str, GoQueueClientError], total: int) -> None:
        receipt, first = next(iter(failures.items()))
        others = f" and {len(failures) - 1} others" if len(failures) > 1 else ""
        detail = (
            f"{len(failures)} of {total} answers were refused, for {receipt}{others}; the first says: {first.detail}"
        )
        super().__init__("partly-answered", detail, first.field, 207)
        self.failures = failures


class _RegistryProblem(msgspec.Struct):
    """How the schema registry's routes tell errors, in Confluent's form."""

    error_code: int
    message: str


def error_of_problem(status: int | None, problem: object) -> GoQueueClientError:
    """The error an already decoded problem stands for; `msgspec.ValidationError` if it is not one."""
    told = converted(problem, ErrorOut)
    known = {"type", "title", "status", "code", "detail", "field"}
    extra = {name: value for name, value in problem.items() if name not in known} if isinstance(problem, dict) else {}
    return GoQueueClientError(told.code, told.detail, told.field, status, extra)


def error_of_reply(status: int, body: bytes) -> GoQueueClientError:
    """The error an answer stands for. What is not a problem document gets the code `http-<status>`."""
    try:
        return error_of_problem(status, msgspec.json.decode(body))
    except msgspec.DecodeError:
        pass
    try:
        told = from_json(body, _RegistryProblem)
        return GoQueueClientError(f"schema-registry-{told.error_code}", told.message, None, status)
    except msgspec.DecodeError:
        excerpt = " ".join(body[: 4 * _EXCERPT_CHARS].decode("utf-8", "replace").split())[:_EXCERPT_CHARS]
        detail = f"The server answered {status} without saying why in GoQueue's form; check the address. It said: "
        return GoQueueClientError(f"http-{status}", detail + (excerpt or "nothing") + ".", None, status)


def bad_reply(why: object) -> GoQueueClientError:
    """An answer of success that cannot be read."""
    return GoQueueClientError("bad-reply", f"The answer is not what GoQueue sends ({why}); check the address.")


def missing_grpc(error: ModuleNotFoundError) -> GoQueueClientError:
    """An address of gRPC where its packages are not installed."""
    detail = f"The package {error.name} is missing; install it with pip install 'goqueue[grpc]', or use http://."
    return GoQueueClientError("missing-extra", detail, "url")


def invalid(detail: str, field: str) -> GoQueueClientError:
    """A mistake seen before anything was sent."""
    return GoQueueClientError("invalid-field", detail, field)
