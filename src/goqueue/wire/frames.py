"""What stands in front of a body: a request's header and a response's, in both directions.

Clients need nothing else of the protocol than this and the messages that they send: `api.py` loads every one.
"""

from __future__ import annotations

from struct import Struct
from typing import Any, Final

from goqueue.format.batch import Buffer
from goqueue.wire.errors import WireError
from goqueue.wire.shape import Api, ClientApi

API_VERSIONS: Final = 18
REQUEST: Final = Struct(">hhih")  # API, version, correlation id, size of the client's id
_SIZED_REQUEST: Final = Struct(">ihhih")
_CORRELATION: Final = Struct(">i")
_RESPONSE: Final = Struct(">ii")
_FLEXIBLE_RESPONSE: Final = Struct(">iix")


def encode_request_frame(
    api: ClientApi, version: int, correlation_id: int, client_id: bytes, request: Any
) -> list[Buffer]:
    """Size, header and body."""
    tags = b"\0" if version >= api.flexible_from else b""
    body = api.encode_request(version, request)
    size = REQUEST.size + len(client_id) + len(tags) + sum(map(len, body))
    header = _SIZED_REQUEST.pack(size, api.key, version, correlation_id, len(client_id))
    return [header + client_id + tags, *body]


def decode_response_frame(api: ClientApi, version: int, correlation_id: int, frame: memoryview) -> Any:
    """The response, which has to be the answer to that request."""
    (found,) = _CORRELATION.unpack_from(frame)
    if found != correlation_id:
        raise WireError(f"the answer to request {found} came instead of {correlation_id}")
    has_tags = version >= api.flexible_from and api.key != API_VERSIONS
    return api.decode_response(version, frame, 5 if has_tags else 4)


def encode_response_frame(api: Api, version: int, correlation_id: int, response: Any) -> list[Buffer]:
    """Size, header and body. ApiVersions keeps the oldest header: its reader does not know our versions yet."""
    body = api.encode_response(version, response)
    size = sum(map(len, body))
    if version >= api.flexible_from and api.key != API_VERSIONS:
        return [_FLEXIBLE_RESPONSE.pack(size + 5, correlation_id), *body]
    return [_RESPONSE.pack(size + 4, correlation_id), *body]
