"""Protobuf schemas: .proto text or Protobuf's own description of a file, checked by Protobuf itself."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from importlib import import_module
from typing import Any, Final

from goqueue.core.schemas.errors import InvalidSchema, SchemaSupportMissing
from goqueue.core.schemas.proto_known import KNOWN_FILES
from goqueue.core.schemas.proto_parse import ProtoParser
from goqueue.core.schemas.proto_print import print_proto

_BASE64: Final = re.compile(r"[A-Za-z0-9+/\s]++={0,2}")
_KNOWN: Final = re.compile(
    r"google/protobuf/(any|api|descriptor|duration|empty|field_mask|source_context|struct|timestamp|type|wrappers)\.proto"
)
_OWN_NAME: Final = "default"
_GROUP: Final = 10
_DELIMITED: Final = 2


class ProtoDocument:
    """A parsed file, with what it imports."""

    def __init__(self, text: str, references: Mapping[str, str]) -> None:
        pb = _descriptors()
        self._references = references
        self._pool = import_module("google.protobuf.descriptor_pool").DescriptorPool()
        self._added: set[str] = set()
        given = _described(text, pb)
        given.name = next(name for name in (_OWN_NAME, *map(str, range(100_000))) if name not in references)
        self.file: Any = self._add(given, ())
        _refuse_groups(given)
        self.description = pb.FileDescriptorProto()
        self.file.CopyToProto(self.description)
        self.normal = self.canonical = print_proto(self.description)
        self.text = self.canonical if _is_description(text) else text

    @property
    def serialized(self) -> str:
        """As clients ask for it that cannot read .proto text."""
        return base64.b64encode(self.description.SerializeToString(deterministic=True)).decode("ascii")

    def message(self, indexes: tuple[int, ...]) -> Any | None:
        """By place: the third of the file's messages, the first within it, and so on."""
        found: Any = None
        listed = list(self.file.message_types_by_name.values())
        for index in indexes:
            if not 0 <= index < len(listed):
                return None
            found = listed[index]
            listed = found.nested_types
        return found

    def _add(self, given: Any, above: tuple[str, ...]) -> Any:
        for name in given.dependency:
            if name not in self._added:
                self._import(name, above)
        try:
            self._pool.Add(given)
            found = self._pool.FindFileByName(given.name)
        except (TypeError, KeyError, ValueError) as error:
            raise _bad(str(error)[:500].replace("\n", " ").rstrip(".")) from None
        self._added.add(given.name)
        return found

    def _import(self, name: str, above: tuple[str, ...]) -> None:
        pb = _descriptors()
        if name in above:
            raise _bad(f"{name} imports itself")
        if name in self._references:
            given = _described(self._references[name], pb)
            given.name = name
        elif name in KNOWN_FILES:
            given = ProtoParser(f'syntax = "proto3"; {KNOWN_FILES[name]}', pb).parse()
            given.name = name
        elif _KNOWN.fullmatch(name):
            given = pb.FileDescriptorProto()
            import_module(name[: -len(".proto")].replace("/", ".") + "_pb2").DESCRIPTOR.CopyToProto(given)
        else:
            raise _bad(f"the import {name[:200]!r} is not known; register it and name it under references")
        self._add(given, (*above, name))


def _described(text: str, pb: Any) -> Any:
    if not _is_description(text):
        try:
            return ProtoParser(text, pb).parse()
        except (ValueError, TypeError, OverflowError) as error:  # a number that does not fit where it stands
            raise _bad(str(error)[:200]) from None
    given = pb.FileDescriptorProto()
    try:
        given.ParseFromString(base64.b64decode(text, validate=False))
    except (binascii.Error, ValueError, import_module("google.protobuf.message").DecodeError) as error:
        raise _bad(f"neither .proto text nor a description of a file ({error})") from None
    given.ClearField("source_code_info")
    return given


def _refuse_groups(file: Any) -> None:
    """Messages between two tags instead of behind a length: long out of use, and walked by nobody here."""
    waiting = list(file.message_type)
    found = file.options.features.message_encoding == _DELIMITED
    while waiting and not found:
        message = waiting.pop()
        waiting += message.nested_type
        found = message.options.features.message_encoding == _DELIMITED or any(
            field.type == _GROUP or field.options.features.message_encoding == _DELIMITED for field in message.field
        )
    if found:
        raise _bad("groups are not supported; use a message")


def _is_description(text: str) -> bool:
    return _BASE64.fullmatch(text.strip()) is not None


def _descriptors() -> Any:
    try:
        return import_module("google.protobuf.descriptor_pb2")
    except ImportError:
        raise SchemaSupportMissing("Protobuf needs a package: pip install 'goqueue[schemas]'.") from None


def _bad(why: str) -> InvalidSchema:
    return InvalidSchema(f"The schema is not right: {why}.", field="schema")
