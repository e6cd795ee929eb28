"""Where error words meet SQS. AWS has two names for each error (JSON's and the query protocol's); both are here."""

from __future__ import annotations

from typing import Final

import msgspec

from goqueue.base import errors
from goqueue.core.schemas.errors import SchemaMismatch
from goqueue.edge.http.connections import Rendered


class Fault(msgspec.Struct, frozen=True):
    """One kind of error as both protocols name it."""

    shape: str  # `__type` in JSON
    code: str  # `Code` in XML, and in JSON's header `x-amzn-query-error`
    status: int = 400
    is_senders: bool = True


_SQS: Final = "com.amazonaws.sqs#"
_CORAL: Final = "com.amazon.coral.service#"
_LONG: Final = "AWS.SimpleQueueService."


def _own(name: str, code: str | None = None, status: int = 400) -> Fault:
    return Fault(_SQS + name, name if code is None else code, status)


FAULTS: Final[dict[str, Fault]] = {
    "AccessDenied": Fault(_CORAL + "AccessDeniedException", "AccessDenied", 403),
    "BatchEntryIdsNotDistinct": _own("BatchEntryIdsNotDistinct", _LONG + "BatchEntryIdsNotDistinct"),
    "BatchRequestTooLong": _own("BatchRequestTooLong", _LONG + "BatchRequestTooLong"),
    "EmptyBatchRequest": _own("EmptyBatchRequest", _LONG + "EmptyBatchRequest"),
    "IncompleteSignature": Fault(_CORAL + "IncompleteSignatureException", "IncompleteSignature"),
    "InternalFailure": Fault(_CORAL + "InternalFailure", "InternalFailure", 500, False),
    "InvalidAction": Fault(_CORAL + "UnknownOperationException", "InvalidAction"),
    "InvalidAddress": _own("InvalidAddress"),
    "InvalidAttributeName": _own("InvalidAttributeName"),
    "InvalidAttributeValue": _own("InvalidAttributeValue"),
    "InvalidBatchEntryId": _own("InvalidBatchEntryId", _LONG + "InvalidBatchEntryId"),
    "InvalidClientTokenId": Fault(_CORAL + "UnrecognizedClientException", "InvalidClientTokenId", 403),
    "InvalidMessageContents": _own("InvalidMessageContents"),
    "InvalidParameterValue": Fault(_CORAL + "InvalidParameterValueException", "InvalidParameterValue"),
    "MalformedInput": Fault(_CORAL + "SerializationException", "MalformedInput"),
    "MessageNotInflight": _own("MessageNotInflight", _LONG + "MessageNotInflight"),
    "MissingAuthenticationToken": Fault(
        _CORAL + "MissingAuthenticationTokenException", "MissingAuthenticationToken", 403
    ),
    "MissingParameter": Fault(_CORAL + "MissingRequiredParameterException", "MissingParameter"),
    "OverLimit": _own("OverLimit", status=403),
    "PurgeQueueInProgress": _own("PurgeQueueInProgress", _LONG + "PurgeQueueInProgress", 403),
    "QueueDoesNotExist": _own("QueueDoesNotExist", _LONG + "NonExistentQueue"),
    "QueueNameExists": _own("QueueNameExists", "QueueAlreadyExists"),
    "ReceiptHandleIsInvalid": _own("ReceiptHandleIsInvalid"),
    "RequestEntityTooLarge": Fault(_CORAL + "RequestEntityTooLargeException", "RequestEntityTooLarge", 413),
    "RequestThrottled": _own("RequestThrottled", status=403),
    "ResourceNotFoundException": _own("ResourceNotFoundException", status=404),
    "ServiceUnavailable": Fault(_CORAL + "ServiceUnavailableException", "ServiceUnavailable", 503, False),
    "SignatureDoesNotMatch": Fault(_CORAL + "InvalidSignatureException", "SignatureDoesNotMatch", 403),
    "TooManyEntriesInBatchRequest": _own("TooManyEntriesInBatchRequest", _LONG + "TooManyEntriesInBatchRequest"),
    "UnsupportedOperation": _own("UnsupportedOperation", _LONG + "UnsupportedOperation"),
}


class SqsError(Exception):
    """An error as a client of SQS knows it; `name` is a key of `FAULTS`."""

    def __init__(self, name: str, message: str) -> None:
        super().__init__(message)
        self.name = name
        self.message = message

    @property
    def fault(self) -> Fault:
        return FAULTS[self.name]


# The nearest class of an error word's line decides.
NAMES: Final[dict[type[errors.GoQueueError], str]] = {
    errors.Invalid: "InvalidParameterValue",
    errors.InvalidReceipt: "ReceiptHandleIsInvalid",
    SchemaMismatch: "InvalidMessageContents",
    errors.Unauthenticated: "InvalidClientTokenId",
    errors.Forbidden: "UnsupportedOperation",
    errors.AccessDenied: "AccessDenied",
    errors.ForeignOrigin: "AccessDenied",
    errors.UnknownHost: "AccessDenied",
    errors.NotFound: "ResourceNotFoundException",
    errors.UnknownTopic: "QueueDoesNotExist",
    errors.UnknownRoute: "InvalidAddress",
    errors.Conflict: "UnsupportedOperation",
    errors.TopicExists: "QueueNameExists",
    errors.StaleReceipt: "MessageNotInflight",
    errors.TooLarge: "InvalidParameterValue",
    errors.BodyTooLarge: "RequestEntityTooLarge",
    errors.HeadTooLarge: "RequestEntityTooLarge",
    errors.UriTooLong: "RequestEntityTooLarge",
    errors.MalformedRequest: "MalformedInput",
    errors.Gone: "UnsupportedOperation",
    errors.Damaged: "InternalFailure",
    errors.Full: "ServiceUnavailable",
    errors.QuotaExceeded: "OverLimit",
    errors.Unavailable: "ServiceUnavailable",
    errors.Overloaded: "RequestThrottled",
    errors.Throttled: "RequestThrottled",
    errors.Startup: "ServiceUnavailable",
}


def translate(error: errors.GoQueueError) -> SqsError:
    """The broker's error word in SQS's words."""
    return SqsError(next(NAMES[kind] for kind in type(error).__mro__ if kind in NAMES), error.message)


def rendered(error: errors.GoQueueError) -> Rendered:
    """The same for what is refused before it is a request."""
    translated = translate(error)
    fault = translated.fault
    body = msgspec.json.encode({"__type": fault.shape, "message": translated.message})
    return Rendered(fault.status, "application/x-amz-json-1.0", body)


def invalid(message: str) -> SqsError:
    return SqsError("InvalidParameterValue", message)


def invalid_value(value: object, parameter: str, reason: str) -> SqsError:
    """The form in which AWS tells most mistakes."""
    return invalid(f"Value {str(value)[:300]} for parameter {parameter} is invalid. Reason: {reason}")


def missing(parameter: str) -> SqsError:
    return SqsError("MissingParameter", f"The request must contain the parameter {parameter}.")


def no_queue() -> SqsError:
    return SqsError("QueueDoesNotExist", "The specified queue does not exist.")
