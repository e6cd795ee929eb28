"""The settings of Kafka's door."""

from __future__ import annotations

from typing import Annotated

import msgspec

from goqueue.base.limits import MIB
from goqueue.base.security_settings import DoorTls

Doc = msgspec.Meta


class KafkaSettings(DoorTls, frozen=True, forbid_unknown_fields=True):
    listen: Annotated[
        str, Doc(description="Address of Kafka's door, `HOST:PORT` or `off`; port 0 picks a free one.")
    ] = "127.0.0.1:9092"
    advertised: Annotated[
        str,
        Doc(description="Address that clients are told to use, `HOST:PORT`; empty means the one they reached."),
    ] = ""
    external_listen: Annotated[
        str,
        Doc(
            description="Address of a second listener of Kafka's door, for clients that reach nodes by other "
            "addresses, `HOST:PORT` or `off`; all else is as at the first."
        ),
    ] = "off"
    external_advertised: Annotated[
        str,
        Doc(description="Address that clients of the second listener are told to use, as `kafka.advertised`."),
    ] = ""
    request_bytes_max: Annotated[int, Doc(ge=1024, description="Largest request.")] = 100 * MIB
    buffered_bytes_max: Annotated[
        int,
        Doc(
            ge=1024,
            description="Requests and answers that wait in memory, of all connections together; when it is passed the "
            "connection that holds the most is closed.",
        ),
    ] = 512 * MIB
    connections_max: Annotated[int, Doc(ge=1, description="Connections at once; more are closed at once.")] = 10_000
    connections_per_address_max: Annotated[
        int, Doc(ge=1, description="The same for the connections of one address.")
    ] = 5_000
    frame_ms: Annotated[
        int, Doc(ge=1, description="How long a request may take to arrive; then its connection is closed.")
    ] = 120_000
    fetch_sessions_max: Annotated[
        int, Doc(ge=0, description="Consumers whose partitions are remembered between fetches; 0 switches that off.")
    ] = 1_000
    idle_ms: Annotated[
        int,
        Doc(ge=1, description="A connection on which nothing comes, waits or is read for this long is closed."),
    ] = 600_000

    def mistakes(self, processes: int) -> list[str]:
        """What is wrong with them, for people; `processes` share the node's work."""
        if self.external_listen == "off":
            return []
        if self.listen == "off":
            return ["kafka.external_listen: it is a second listener; open the first too, with kafka.listen"]
        if processes > 1:
            return ["kafka.external_listen: several processes have one listener each; leave it off"]
        return []
