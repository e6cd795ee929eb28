"""Runs gRPC's server on the node's own loop."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import grpc

from goqueue.base.grpc_settings import GrpcSettings
from goqueue.base.startup_errors import AddressUnusable
from goqueue.edge.doors import Address
from goqueue.edge.security.tls import TlsContext, TlsFiles

# A client that vanished without a word is noticed after two minutes, also if nothing is sent to it.
_KEEPALIVE = (
    ("grpc.keepalive_time_ms", 90_000),
    ("grpc.keepalive_timeout_ms", 30_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.http2.min_ping_interval_without_data_ms", 5_000),
)


class GrpcServer:
    """One listener. It is bound when it is made, and serves when it is started."""

    def __init__(
        self, settings: GrpcSettings, address: Address, tls: TlsContext | None, is_shared: bool = False
    ) -> None:
        """`AddressUnusable` says which setting to change. With `is_shared` other processes listen there too."""
        options = (
            ("grpc.so_reuseport", int(is_shared)),
            ("grpc.max_receive_message_length", settings.message_bytes_max),
            ("grpc.max_send_message_length", -1),
            ("grpc.max_concurrent_streams", settings.streams_per_connection_max),
            ("grpc.max_metadata_size", settings.metadata_bytes_max),
            ("grpc.absolute_max_metadata_size", settings.metadata_bytes_max),
            ("grpc.max_allowed_incoming_connections", settings.connections_max),
            ("grpc.max_connection_idle_ms", settings.idle_ms),
            *_KEEPALIVE,
        )
        self._server = grpc.aio.server(options=options, maximum_concurrent_rpcs=settings.calls_max)
        host, port = address
        try:
            self.address: Address = host, self._bind(_text(host, port), tls)
        except RuntimeError as error:
            raise AddressUnusable(
                f"Cannot listen on {host}:{port}. Choose another address with grpc.listen (port 0 picks a free one), "
                "or stop what uses it.",
                field="grpc.listen",
            ) from error

    def _bind(self, address: str, tls: TlsContext | None) -> int:
        port: int
        if tls is None:
            port = self._server.add_insecure_port(address)
        else:
            port = self._server.add_secure_port(address, _credentials(tls))
        return port

    def __str__(self) -> str:
        return _text(*self.address)

    async def start(self, handlers: Iterable[grpc.GenericRpcHandler]) -> None:
        self._server.add_generic_rpc_handlers(tuple(handlers))
        await self._server.start()

    async def stop(self, drain_ms: int) -> None:
        """Takes no new calls, finishes what is under way."""
        await self._server.stop(drain_ms / 1000)


def _text(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _credentials(tls: TlsContext) -> Any:
    """New connections get what the files hold once the node has taken that over."""
    told = tls.current

    def fetch() -> Any:
        nonlocal told
        if tls.current is told:
            return None
        told = tls.current
        return _configuration(tls.files)

    is_required = tls.files.client_auth == "required"
    return grpc.dynamic_ssl_server_credentials(_configuration(tls.files), fetch, is_required)


def _configuration(files: TlsFiles) -> Any:
    key, cert = Path(files.key or files.cert).read_bytes(), Path(files.cert).read_bytes()
    ca = Path(files.client_ca).read_bytes() if files.client_ca else None
    return grpc.ssl_server_certificate_configuration([(key, cert)], ca)
