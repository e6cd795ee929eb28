"""Values as JSON, by the schemas that they were written with."""

from __future__ import annotations

from base64 import b64decode
from binascii import Error
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from goqueue.api.console import DecodeIn, DecodeOut, EncodedValue, JsonValueOut
from goqueue.base.commands import Caller, Headers
from goqueue.base.errors import GoQueueError
from goqueue.base.limits import DECODED_CHARS_MAX, KIB
from goqueue.core.schemas.decoding import decoded
from goqueue.core.schemas.framing import Framed, by_header, by_prefix
from goqueue.core.schemas.mismatch import Mismatch
from goqueue.drive.offload import Offload
from goqueue.edge.rest.callers import caller_of
from goqueue.edge.rest.operations import RestOperation, json
from goqueue.edge.rest.requests import Bodies, decode
from goqueue.service.front import Front
from goqueue.service.schemas import Schemas
from goqueue.service.time_slices import TimeSlices

_HERE_BYTES_MAX: Final = 1 * KIB  # more than this is decoded off the loop: each byte can be several values
_TOO_LONG: Final = JsonValueOut(error="those before it are long; ask for fewer at once")


class SchemaDecoding:
    """For what a caller may see: a schema of others is an unknown one."""

    def __init__(self, schemas: Front[Schemas], bodies: Bodies, offload: Offload) -> None:
        self._schemas = schemas
        self._bodies = bodies
        self._offload = offload

    def operations(self) -> list[RestOperation]:
        summary = "Values as JSON, by their schemas"
        return [
            RestOperation("POST", "/schemas/decode", self.decode, summary, "schemas", DecodeOut, 200, DecodeIn),
        ]

    async def decode(self, request: Request) -> Response:
        async with self._bodies.read(request) as body:
            given = decode(body, DecodeIn)
            results, left, slices = list[JsonValueOut](), DECODED_CHARS_MAX, TimeSlices()
            for one in given.values:
                results.append(await self._result(caller_of(request), one) if left > 0 else _TOO_LONG)
                left -= len(results[-1].json or "")
                await slices.pause()
            return json(DecodeOut(results))

    async def _result(self, caller: Caller, one: EncodedValue) -> JsonValueOut:
        try:
            data = b64decode(one.value, validate=True) if one.encoding == "base64" else one.value.encode()
            framed = self._framed(caller, data) if one.schema_id is None else Framed(one.schema_id, data)
            kind, text = await self._text(caller, framed)
        except Mismatch as error:
            return JsonValueOut(error=error.reason)
        except GoQueueError as error:
            return JsonValueOut(error=error.message)
        except Error:
            return JsonValueOut(error="it is not base64")
        held = self._schemas.by(caller).table.uses(framed.id)
        return JsonValueOut(framed.id, kind, held[0].subject if held else None, text)

    async def of_message(self, caller: Caller, data: bytes, headers: Headers) -> str | None:
        """None if the message names no schema, or one that does not fit."""
        try:
            return (await self._text(caller, self._framed(caller, data)))[1]
        except (Mismatch, GoQueueError):
            pass
        try:
            table = self._schemas.by(caller).table
            return (await self._text(caller, by_header("value", data, headers, lambda guid: table.id_of_guid(guid))))[1]
        except (Mismatch, GoQueueError):
            return None

    def _framed(self, caller: Caller, data: bytes) -> Framed:
        table = self._schemas.by(caller).table
        return by_prefix(data, lambda schema_id: table.schema(schema_id).schema.kind == "PROTOBUF")

    async def _text(self, caller: Caller, framed: Framed) -> tuple[str, str]:
        schemas = self._schemas.by(caller)
        kind = schemas.table.schema(framed.id).schema.kind
        document = await schemas.document(framed.id)
        if len(framed.data) <= _HERE_BYTES_MAX:
            return kind, decoded(document, framed.data, framed.indexes)
        return kind, await self._offload(lambda: decoded(document, framed.data, framed.indexes))
