"""The metadata that all processes of a machine share: kept in files by the supervisor, served on the loopback.

It has one owner and needs no vote. Shards are moved to processes that are new, and away from those that are to go.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Set
from typing import Final

from goqueue import __version__
from goqueue.base.errors import MetadataConflict
from goqueue.base.metadata import Change, Commit
from goqueue.core.cluster.balancing import HeldShard, planned
from goqueue.core.cluster.image import Image
from goqueue.core.cluster.moving import begun
from goqueue.core.cluster.placement import is_alone
from goqueue.core.cluster.records import MACHINE, MEMBERS, NOBODY, SHARDS, MachineRecord, encode
from goqueue.drive.cluster_growth import growing
from goqueue.drive.embedded_metadata import EmbeddedMetadata
from goqueue.drive.image_follower import ImageFollower
from goqueue.drive.local_metadata import CLUSTER, KEEPER, SCHEME
from goqueue.drive.offload import Threads
from goqueue.drive.old_files import take_over_old_files
from goqueue.drive.peer_security import PeerSecurity
from goqueue.drive.served_metadata import ServedMetadata
from goqueue.edge.listening import listen
from goqueue.edge.peers.door import PeerDoor
from goqueue.log.real_disk import RealDisk
from goqueue.wire.node_frames import PROTOCOL, Hello

logger = logging.getLogger(__name__)

_HOST: Final = "127.0.0.1"


class ProcessStore:
    """`open` before any process is started, `close` after the last has ended."""

    def __init__(self, disk: RealDisk, secret: str) -> None:
        self._disk = disk
        self._secret = secret
        self._threads = Threads(1)
        self._store = EmbeddedMetadata(disk, self._threads)
        self._served = ServedMetadata(self._store)
        self._follower = ImageFollower(self._store, self._changed)
        self._news = asyncio.Event()
        self._door: PeerDoor | None = None
        self.address = ""

    @property
    def image(self) -> Image:
        return self._follower.image

    def _changed(self, change: Change) -> None:
        self._news.set()

    async def news(self) -> None:
        """Returns when something has changed."""
        self._news.clear()
        await self._news.wait()

    async def open(self, first: int, processes: int) -> None:
        """`first` is the number of the first node, which is that of a node that was alone here."""
        await self._store.open()
        await take_over_old_files(self._disk, self._threads, self._store, first)
        await self._follower.start()
        await self._adopt(processes)
        sock = listen(_HOST, 0, "node.processes")
        self.address = f"{SCHEME}{_HOST}:{sock.getsockname()[1]}"
        me = Hello(PROTOCOL, CLUSTER, KEEPER, "", __version__)
        self._door = PeerDoor(me, sock, self._served.verbs, PeerSecurity([self._secret.encode()]))
        self._served.start()
        await self._door.start()

    async def _adopt(self, processes: int) -> None:
        """Shards of a node that was alone become those of a cluster. Where all is as it was, nothing is written: a
        start needs no room."""
        image = self.image
        if image.processes == processes and not is_alone(image):
            return
        puts = {MACHINE: encode(MachineRecord(processes))}
        if is_alone(image):
            puts |= {f"{SHARDS}{shard}": growing(image, shard, 1) for shard in image.shards()}
        await self._follower.commit(Commit(puts, modified={key: image.modified(key) for key in puts}))

    async def close(self) -> None:
        if self._door is not None:
            await self._door.stop()
        await self._served.stop()
        await self._follower.stop()
        self._threads.close()

    async def node_gone(self, node: int) -> None:
        await self._served.node_gone(node)

    # --- who holds what ----------------------------------------------------------------------------------------

    def holders(self) -> set[int]:
        """Nodes that hold a shard, or are on the way to or from one."""
        image = self.image
        return {node for shard in image.shards() for node in image.shard(shard).replicas}

    @property
    def is_led(self) -> bool:
        """Every shard has a leader."""
        image = self.image
        return all(image.shard(shard).leader != NOBODY for shard in image.shards())

    def led(self) -> dict[int, int]:
        """How many shards each node leads."""
        image = self.image
        found = dict.fromkeys(image.nodes(), 0)
        for shard in image.shards():
            if (leader := image.shard(shard).leader) in found:
                found[leader] += 1
        return found

    async def spread(self, nodes: Set[int]) -> int:
        """Begins to move shards if one of these nodes has none and was not drained, or another one has some; how many
        move."""
        image = self.image
        nodes = {node for node in nodes if not ((known := image.member(node)) and known.is_drained)}
        shards = {shard: image.shard(shard) for shard in image.shards()}
        held = {node for record in shards.values() for node in record.target or record.replicas}
        if held == nodes or not shards or not nodes or (held < nodes and len(held) >= len(shards)):
            return 0
        weights = {shard: HeldShard(one.target or one.replicas, 1, 1) for shard, one in shards.items()}
        plan = planned(weights, dict.fromkeys(sorted(nodes), ""))
        return sum([await self._move(shard, target) for shard, target in plan.items()])

    async def _move(self, shard: int, target: Iterable[int]) -> bool:
        """Who is changing the record meanwhile is the controller: the next look sees what became of it."""
        key, image = f"{SHARDS}{shard}", self.image
        after = begun(image.shard(shard), tuple(target))
        if after is None:
            return False
        try:
            await self._follower.commit(Commit({key: encode(after)}, modified={key: image.modified(key)}))
        except MetadataConflict:
            return False
        return True

    async def forget(self, node: int) -> None:
        """It holds nothing any more, and does not come back."""
        await self._follower.commit(Commit(deletes=[f"{MEMBERS}{node}"]))
