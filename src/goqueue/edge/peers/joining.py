"""What a node of a cluster needs from its machine: the store's client, and the port for the other nodes."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from typing import TYPE_CHECKING

from goqueue.base.cluster_settings import ClusterSettings
from goqueue.base.errors import NeedsExtra, StoreOutOfReach, StoreUnreachable
from goqueue.base.settings import parse_address
from goqueue.drive.cluster_member import ClusterPorts
from goqueue.drive.disk_note import boot_id
from goqueue.drive.peers import NODE_PORT, PeerVerb
from goqueue.edge.http.server import listen
from goqueue.edge.peers.door import PeerDoor
from goqueue.wire.node_frames import Hello

if TYPE_CHECKING:
    from goqueue.drive.etcd_metadata import EtcdMetadata


class ClusterDoor:
    """`open` binds the port and reaches the store; the port serves when the node has joined."""

    def __init__(self, settings: ClusterSettings) -> None:
        self._settings = settings
        self._socket: socket.socket | None = None
        self._door: PeerDoor | None = None

    async def open(self, doors: Mapping[str, str]) -> ClusterPorts:
        """`doors` are the addresses of the other doors. `NeedsExtra`, `AddressUnusable`, `StoreUnreachable`."""
        address = parse_address(self._settings.listen)
        assert address is not None
        store = _store(self._settings)
        self._socket = listen(*address, "cluster.listen")
        try:
            await store.open()
        except StoreOutOfReach as error:
            await store.close()
            self._socket.close()
            message = f"The store {self._settings.store} cannot be used: {error.message}"
            raise StoreUnreachable(message, field="cluster.store") from error
        host, port = self._socket.getsockname()[:2]
        addresses = {**doors, NODE_PORT: self._settings.advertised or f"{host}:{port}"}
        return ClusterPorts(store, addresses, self._serve, boot_id())

    async def _serve(self, me: Hello, verbs: Mapping[str, PeerVerb]) -> None:
        assert self._socket is not None
        self._door = PeerDoor(me, self._socket, verbs)
        await self._door.start()

    async def close(self) -> None:
        if self._door is not None:
            await self._door.stop()


def _store(settings: ClusterSettings) -> EtcdMetadata:
    try:
        from goqueue.drive.etcd_calls import EtcdSettings
        from goqueue.drive.etcd_metadata import EtcdMetadata
    except ImportError as error:
        message = f"A cluster needs the package {error.name}: pip install 'goqueue[cluster]'."
        raise NeedsExtra(message, field="cluster.store") from error
    chosen = EtcdSettings(
        settings.store.removeprefix("etcd://").split(","),
        f"{settings.name}/",
        max(1, round(settings.session_ms / 1000)),
        ca_file=settings.ca_file,
        cert_file=settings.cert_file,
        key_file=settings.key_file,
        user=settings.user,
        password=settings.password,
    )
    return EtcdMetadata(chosen)
