"""A node on which whoever does not say who it is belongs to a tenant: suites of doors run as one, unchanged.

`NODE_TENANT=a` in the environment: the nodes of tests are started by this program. With `NODE_TENANTS` as
`127.0.0.2=a,127.0.0.3=b` it depends on the address at which a client reached the node, which is taken for the one that
it comes from (not over gRPC, which tells nobody).
"""

from __future__ import annotations

import os
from functools import lru_cache
from typing import Any, cast

from goqueue.base import commands


@lru_cache(maxsize=1024)
def of_a_tenant(door: str, host: str) -> commands.Caller:
    by_host = dict(pair.split("=") for pair in os.environ.get("NODE_TENANTS", "").split(",") if pair)
    return commands.Caller(door=door, host=host, tenant=by_host.get(host, os.environ.get("NODE_TENANT", "")))


class _Reached:
    """A transport whose client seems to come from where it went to."""

    def __init__(self, transport: Any) -> None:
        self._transport = transport

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._transport.get_extra_info("sockname" if name == "peername" else name, default)


def _take_where_they_went() -> None:
    from goqueue.edge.http.protocol import GuardedProtocol
    from goqueue.edge.kafka.connection import KafkaConnection

    by_kafka, by_http = KafkaConnection.connection_made, GuardedProtocol.connection_made

    def kafka_made(connection: KafkaConnection, transport: Any) -> None:
        by_kafka(connection, cast(Any, _Reached(transport)))

    def http_made(connection: GuardedProtocol, transport: Any) -> None:
        by_http(connection, transport)
        connection.client = cast(Any, connection.server)

    patched: Any = KafkaConnection, GuardedProtocol
    for kind, made in zip(patched, (kafka_made, http_made), strict=True):
        kind.connection_made = made


def main() -> None:
    commands.anonymous = of_a_tenant  # before a door is loaded, which takes it from there
    from goqueue.drive.topic_table import TopicTable
    from goqueue.node_services import NodeServices

    begin = NodeServices.__init__

    def with_access(services: NodeServices, *args: Any, **named: Any) -> None:
        begin(services, *args, **named)
        services.access = services.access_control  # which nodes without security have none of

    NodeServices.__init__ = with_access  # type: ignore[assignment,method-assign]
    TopicTable.has_tenant = lambda *_: True  # type: ignore[method-assign]
    if "NODE_TENANTS" in os.environ:
        _take_where_they_went()
    from goqueue.cli import main as serve

    serve()


if __name__ == "__main__":
    main()
