"""Between the messages of the wire and plain data, by the names of fields."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeVar

import msgspec
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import DecodeError, Message

from goqueue.base.decoders import converted
from goqueue.base.errors import MalformedRequest
from goqueue.edge.rest.requests import field_error

_NUMBERS: Final = (FieldDescriptor.CPPTYPE_INT32, FieldDescriptor.CPPTYPE_INT64)
M = TypeVar("M", bound=Message)
T = TypeVar("T")


def decoded(kind: type[M], data: bytes) -> M:
    """`MalformedRequest` if the bytes are not such a message."""
    try:
        found: M = kind.FromString(data)
    except (DecodeError, RecursionError):
        raise MalformedRequest(f"The request is not a {kind.DESCRIPTOR.full_name}.") from None
    return found


def given(message: Message, kind: type[T], *without: str) -> T:
    """What the request says as one of the types that every door has, held to the same limits."""
    fields = {name: value for name, value in plain(message).items() if name not in without}
    try:
        return converted(fields, kind)
    except msgspec.ValidationError as error:
        raise field_error(str(error), kind) from None


def plain(message: Message) -> dict[str, Any]:
    """The fields that are set, and numbers that are 0 because nobody can tell those apart."""
    zeros = {field.name: 0 for field in message.DESCRIPTOR.fields if _is_zero_told(field)}
    return zeros | {field.name: _plain_value(field, value) for field, value in message.ListFields()}


def _plain_value(field: FieldDescriptor, value: Any) -> Any:
    if _is_map(field):
        return dict(value)
    if field.is_repeated:
        return [plain(one) if field.message_type else one for one in value]
    return plain(value) if field.message_type else value


def made(kind: type[M], source: object, **named: Any) -> M:
    """A message with what the struct has under the same names; `named` are those that it has not."""
    message: M = kind(**named)
    for field in message.DESCRIPTOR.fields:
        value = getattr(source, field.name, None)
        if value is not None and field.name not in named:
            _put(message, field, value)
    return message


def _put(message: Message, field: FieldDescriptor, value: Any) -> None:
    if _is_map(field):
        _put_map(message, field, value)
    elif field.is_repeated:
        target = getattr(message, field.name)
        target.extend([_made(field, one) for one in value] if field.message_type else value)
    elif field.message_type:
        getattr(message, field.name).CopyFrom(_made(field, value))
    else:
        setattr(message, field.name, value)


def _put_map(message: Message, field: FieldDescriptor, value: Mapping[Any, Any]) -> None:
    target, inner = getattr(message, field.name), field.message_type.fields_by_name["value"]
    for key, one in value.items():
        if inner.message_type:
            target[key].CopyFrom(_made(inner, one))
        else:
            target[key] = one


def _made(field: FieldDescriptor, value: Any) -> Message:
    return made(field.message_type._concrete_class, value)


def _is_zero_told(field: FieldDescriptor) -> bool:
    return not field.has_presence and not field.is_repeated and field.cpp_type in _NUMBERS


def _is_map(field: FieldDescriptor) -> bool:
    return bool(field.message_type) and field.message_type.GetOptions().map_entry
