"""The settings that the doors over HTTP (REST and SQS) have in common: what one client may take of the node."""

from __future__ import annotations

from typing import Annotated

import msgspec

from goqueue.base.limits import KIB, MIB
from goqueue.base.security_settings import DoorTls

Doc = msgspec.Meta


class HttpSettings(DoorTls, frozen=True, forbid_unknown_fields=True):
    """Base of a door's section."""

    allowed_hosts: Annotated[
        str,
        Doc(
            description="Names under which clients reach this door, with commas between; `*.example.org` is any name "
            "below it, `*` any name at all. IP addresses, `localhost` and the machine's own name are always allowed."
        ),
    ] = ""
    connections_max: Annotated[
        int, Doc(ge=1, description="Connections at once; beyond it an idle one is closed, or the new one gets 503.")
    ] = 4_096
    connections_per_address_max: Annotated[
        int, Doc(ge=1, description="The same for the connections of one client address.")
    ] = 1_024
    pipelined_requests_max: Annotated[
        int, Doc(ge=1, description="Requests of one connection that wait behind another; with more it is closed.")
    ] = 32
    request_line_bytes_max: Annotated[int, Doc(ge=64, description="Longest path and query; beyond it 414.")] = 64 * KIB
    head_bytes_max: Annotated[
        int, Doc(ge=64, description="Request line and headers together; beyond it 431. Also trailers of a body.")
    ] = 128 * KIB
    headers_max: Annotated[int, Doc(ge=1, description="Headers of one request; beyond it 431.")] = 100
    head_ms: Annotated[int, Doc(ge=1, description="How long the head of a request may take to arrive.")] = 10_000
    idle_ms: Annotated[int, Doc(ge=1, description="A connection without a request is closed after this.")] = 75_000
    body_stall_ms: Annotated[
        int, Doc(ge=1, description="A request whose body does not go on for this long is ended with 408.")
    ] = 20_000
    transfer_bytes_per_second_min: Annotated[
        int,
        Doc(
            ge=0,
            description="Slowest body, and slowest reading of an answer, measured over the time that a stall may last.",
        ),
    ] = 1_024
    answer_stall_ms: Annotated[
        int, Doc(ge=1, description="A client that does not read its answer for this long is cut off.")
    ] = 30_000
    answer_bytes_max: Annotated[
        int, Doc(ge=1, description="Unread answers of one connection; who passes it is cut off.")
    ] = 64 * MIB
    answer_bytes_total_max: Annotated[
        int,
        Doc(ge=1, description="Unread answers of all connections together; beyond it the slowest readers are cut off."),
    ] = 256 * MIB
