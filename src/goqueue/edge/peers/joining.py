"""What a node of a cluster needs from its machine: the store's client, and the port for the other nodes."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

from goqueue import __version__
from goqueue.base.cluster_settings import ClusterSettings
from goqueue.base.errors import StoreOutOfReach
from goqueue.base.settings import parse_address
from goqueue.base.startup_errors import NeedsExtra, StoreUnreachable
from goqueue.drive.cluster_member import ClusterPorts
from goqueue.drive.disk_note import boot_id
from goqueue.drive.local_metadata import CLUSTER, KEEPER, SCHEME, LocalMetadata
from goqueue.drive.peer_security import OPEN, security_of
from goqueue.drive.peers import NODE_PORT, PeerVerb, connect
from goqueue.edge.listening import listen
from goqueue.edge.peers.door import PeerDoor
from goqueue.wire.node_frames import PROTOCOL, Hello

if TYPE_CHECKING:
    from goqueue.drive.etcd_metadata import EtcdMetadata


class ClusterDoor:
    """`open` binds the port and reaches the store; the port serves when the node has joined."""

    def __init__(self, settings: ClusterSettings, node_id: int) -> None:
        self._settings = settings
        self._node_id = node_id
        self._socket: socket.socket | None = None
        self._door: PeerDoor | None = None
        self._security = OPEN

    async def open(self, doors: Mapping[str, str]) -> ClusterPorts:
        """`doors` are the addresses of the other doors. `NeedsExtra`, `AddressUnusable`, `StoreUnreachable`."""
        address = parse_address(self._settings.listen)
        assert address is not None
        self._security = security_of(self._settings)
        is_local = self._settings.store.startswith(SCHEME)
        store = self._local_store() if is_local else etcd_store(self._settings)
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
        link = partial(connect, security=self._security)
        return ClusterPorts(store, addresses, self._serve, boot_id(), link, is_local=is_local)

    def _local_store(self) -> LocalMetadata:
        me = Hello(PROTOCOL, CLUSTER, self._node_id, "", __version__)
        address = self._settings.store.removeprefix(SCHEME)
        return LocalMetadata(connect(address, me, KEEPER, self._security), self._settings.session_ms / 1000)

    async def _serve(self, me: Hello, verbs: Mapping[str, PeerVerb]) -> None:
        assert self._socket is not None
        self._door = PeerDoor(me, self._socket, verbs, self._security)
        await self._door.start()

    async def close(self) -> None:
        if self._door is not None:
            await self._door.stop()


def etcd_store(settings: ClusterSettings) -> EtcdMetadata:
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
