"""Every API by its key, and the header of a request."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import msgspec

from goqueue.wire.errors import WireError
from goqueue.wire.frames import REQUEST
from goqueue.wire.messages.table import MESSAGES
from goqueue.wire.primitives import BAD_BYTES, skip_tags, wrong_bytes, wrong_end, wrong_length
from goqueue.wire.shape import Api

__all__ = ["APIS", "Api", "RequestHeader", "decode_header"]

APIS: Mapping[int, Api] = MappingProxyType({api.key: api for api in MESSAGES})


class RequestHeader(msgspec.Struct, frozen=True, gc=False):
    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None = None


def decode_header(frame: memoryview) -> tuple[RequestHeader, int]:
    """The header and where the body starts.

    The version is not checked: a client may send ApiVersions in a version we do not know and must be answered.
    """
    try:
        return _decode_header(frame)
    except BAD_BYTES as error:
        raise wrong_bytes(error) from error


def _decode_header(frame: memoryview) -> tuple[RequestHeader, int]:
    key, version, correlation_id, size = REQUEST.unpack_from(frame, 0)
    api = APIS.get(key)
    if api is None:
        raise WireError(f"no API has the key {key}")
    at = REQUEST.size
    client_id = None
    if size >= 0:
        client_id = str(frame[at : at + size], "utf-8")
        at += size
    elif size != -1:
        raise wrong_length("client_id", size)
    if version >= api.flexible_from:
        at = skip_tags(frame, at + 1, frame[at])
    if at > len(frame):
        raise wrong_end(at, len(frame))
    return RequestHeader(key, version, correlation_id, client_id), at
