"""The other nodes of the cluster, by their numbers: where each of them is, the image of the metadata says."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, Protocol, TypeAlias

from goqueue.base.errors import PeerOutOfReach
from goqueue.core.cluster.image import Image
from goqueue.drive.peer_link import PeerLink
from goqueue.drive.peer_security import OPEN, PeerSecurity
from goqueue.wire.node_frames import Hello

PeerVerb: TypeAlias = Callable[[Hello, bytes], Awaitable[bytes]]  # what others may call: who calls, and with what
NODE_PORT: Final = "node"  # under which a node's record names its port for other nodes


class Link(Protocol):
    """To one address of another node."""

    async def call(self, verb: str, body: bytes, within_s: float) -> bytes: ...

    def close(self) -> None: ...


Connect: TypeAlias = Callable[[str, Hello, int], Link]  # an address, who we are, and who has to be there


def connect(address: str, me: Hello, peer_id: int, security: PeerSecurity = OPEN) -> PeerLink:
    """Over the network."""
    host, _, port = address.rpartition(":")
    return PeerLink(host.strip("[]"), int(port), me, peer_id, security)


class Peers:
    """Links are made when they are first used, for each purpose one of its own: a large answer on one holds up nothing
    on another. A node that has moved gets new ones."""

    def __init__(self, image: Image, me: Callable[[], Hello], connect: Connect = connect) -> None:
        self._image = image
        self._me = me
        self._connect = connect
        self._links: dict[tuple[int, str], tuple[str, Link]] = {}

    async def call(self, node: int, verb: str, body: bytes, within_s: float, lane: str = "calls") -> bytes:
        """`PeerOutOfReach` if the node is not there; `PeerLost` if it goes away before it answers: then it may have
        done it."""
        return await self._link(node, lane).call(verb, body, within_s)

    def _link(self, node: int, lane: str) -> Link:
        record = self._image.nodes().get(node)
        address = None if record is None else record.addresses.get(NODE_PORT)
        if address is None:
            self._drop((node, lane))
            raise PeerOutOfReach(f"Node {node} is not there.")
        known = self._links.get((node, lane))
        if known is None or known[0] != address:
            self._drop((node, lane))
            known = self._links[node, lane] = address, self._connect(address, self._me(), node)
        return known[1]

    def _drop(self, key: tuple[int, str]) -> None:
        if (known := self._links.pop(key, None)) is not None:
            known[1].close()

    def close(self) -> None:
        for key in list(self._links):
            self._drop(key)
