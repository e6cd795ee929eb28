"""Every API with a client's side: what `goqueue.wire` does not need, the generator makes here, over its structs."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from struct import Struct
from types import MappingProxyType
from typing import Any

import msgspec

from goqueue.format.batch import Buffer
from goqueue.wire.api import APIS as BROKER_APIS
from goqueue.wire.api import Api, RequestHeader
from goqueue.wire.shape import ClientApi
from tools.kafka_codec.model import snake
from tools.kafka_codec.module import client_code

_HEADER = Struct(">hhih")


def _with_client(api: Api) -> ClientApi:
    if isinstance(api, ClientApi):
        return api
    place = f"tests.wire.client.{snake(api.name)}"
    names = vars(import_module(f"goqueue.wire.messages.{snake(api.name)}")) | {"__name__": place}
    exec(compile(client_code(api.name), f"<{place}>", "exec"), names)
    client = {name: names[name] for name in ("encode_request", "decode_response")}
    return ClientApi(**msgspec.structs.asdict(api), **client)


APIS: Mapping[int, ClientApi] = MappingProxyType({key: _with_client(api) for key, api in BROKER_APIS.items()})


def encode_request_frame(api: ClientApi, header: RequestHeader, request: Any) -> list[Buffer]:
    """Size, header and body, as a client sends them."""
    client_id = b"" if header.client_id is None else header.client_id.encode()
    size = -1 if header.client_id is None else len(client_id)
    head = _HEADER.pack(header.api_key, header.api_version, header.correlation_id, size) + client_id
    if header.api_version >= api.flexible_from:
        head += b"\0"
    body = api.encode_request(header.api_version, request)
    return [(len(head) + sum(map(len, body))).to_bytes(4, "big") + head, *body]
