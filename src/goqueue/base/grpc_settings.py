"""The settings of gRPC's door."""

from __future__ import annotations

from typing import Annotated

import msgspec

from goqueue.base.limits import MIB
from goqueue.base.security_settings import DoorTls

Doc = msgspec.Meta


class GrpcSettings(DoorTls, frozen=True, forbid_unknown_fields=True):
    listen: Annotated[
        str,
        Doc(
            description="Address of gRPC's door, `HOST:PORT` or `off`; port 0 picks a free one. It opens where the "
            "extra `grpc` is installed."
        ),
    ] = "127.0.0.1:9000"
    message_bytes_max: Annotated[int, Doc(ge=1024, description="Largest request, and largest part of a stream.")] = (
        64 * MIB
    )
    request_bytes_total_max: Annotated[
        int, Doc(ge=1024, description="Requests held in memory at once; beyond it they get RESOURCE_EXHAUSTED.")
    ] = 256 * MIB
    answer_bytes_total_max: Annotated[
        int,
        Doc(
            ge=1024,
            description="Answers that their readers have not taken yet; beyond it calls get RESOURCE_EXHAUSTED.",
        ),
    ] = 256 * MIB
    calls_max: Annotated[int, Doc(ge=1, description="Calls and streams at once; more get RESOURCE_EXHAUSTED.")] = 10_000
    streams_per_connection_max: Annotated[
        int, Doc(ge=1, description="Calls and streams at once of one connection; more wait at the client.")
    ] = 2_000
    connections_max: Annotated[int, Doc(ge=1, description="Connections at once; more are closed at once.")] = 4_096
    metadata_bytes_max: Annotated[int, Doc(ge=1024, description="Largest metadata of a call.")] = 64 * 1024
    idle_ms: Annotated[int, Doc(ge=1000, description="A connection without a call is closed after this.")] = 600_000
