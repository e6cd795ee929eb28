"""The query protocol's answers: the same values that JSON answers carry, as XML."""

from __future__ import annotations

from base64 import b64encode
from typing import Any, Final
from xml.sax.saxutils import escape

from goqueue.base.sqs_envelope import ILLEGAL

NAMESPACE: Final = "http://queue.amazonaws.com/doc/2012-11-05/"
_ENTITIES: Final = {"\r": "&#xD;", '"': "&quot;"}
_LISTS: Final = {
    "Messages": "Message",
    "QueueUrls": "QueueUrl",
    "queueUrls": "QueueUrl",
    "Failed": "BatchResultErrorEntry",
    "Results": "ListMessageMoveTasksResultEntry",
}
_MAPS: Final = {
    "Attributes": ("Attribute", "Name"),
    "MessageAttributes": ("MessageAttribute", "Name"),
    "Tags": ("Tag", "Key"),
}


def answer(operation: str, reply: dict[str, Any] | None, request_id: str) -> bytes:
    parts = [f'<?xml version="1.0"?><{operation}Response xmlns="{NAMESPACE}">']
    if reply is not None:
        parts.append(f"<{operation}Result>")
        _members(parts, reply, operation)
        parts.append(f"</{operation}Result>")
    parts.append(f"<ResponseMetadata><RequestId>{request_id}</RequestId></ResponseMetadata></{operation}Response>")
    return "".join(parts).encode()


def fault(code: str, message: str, is_senders: bool, request_id: str) -> bytes:
    kind = "Sender" if is_senders else "Receiver"
    return (
        f'<?xml version="1.0"?><ErrorResponse xmlns="{NAMESPACE}"><Error><Type>{kind}</Type>'
        f"<Code>{code}</Code><Message>{_text(message)}</Message><Detail/></Error>"
        f"<RequestId>{request_id}</RequestId></ErrorResponse>"
    ).encode()


def _members(parts: list[str], fields: dict[str, Any], operation: str) -> None:
    for name, value in fields.items():
        if isinstance(value, list):
            _list(parts, _LISTS.get(name, f"{operation}ResultEntry"), value, operation)
        elif name in _MAPS:
            tag, key = _MAPS[name]
            for inner, one in value.items():
                parts.append(f"<{tag}><{key}>{_text(inner)}</{key}>")
                _element(parts, "Value", one, operation)
                parts.append(f"</{tag}>")
        else:
            _element(parts, name, value, operation)


def _list(parts: list[str], tag: str, values: list[Any], operation: str) -> None:
    for value in values:
        _element(parts, tag, value, operation)


def _element(parts: list[str], tag: str, value: Any, operation: str) -> None:
    parts.append(f"<{tag}>")
    if isinstance(value, dict):
        _members(parts, value, operation)
    else:
        parts.append(_text(value))
    parts.append(f"</{tag}>")


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, bytes):
        return b64encode(value).decode()
    return escape(ILLEGAL.sub("\ufffd", str(value)), _ENTITIES)
