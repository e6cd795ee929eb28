"""This node as one of several: it joins, waits for the cluster to be formed, and is there for the others."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Final, NamedTuple

import msgspec

from goqueue import __version__
from goqueue.base.entropy import Entropy, new_uuid
from goqueue.base.errors import GoQueueError, PeerUntrusted, WrongCluster
from goqueue.base.features import KNOWN
from goqueue.base.limits import SHARDS_DEFAULT
from goqueue.base.metadata import Metadata
from goqueue.base.settings import Settings
from goqueue.base.startup_errors import ClusterTooNew, WrongNodeId, WrongSecret
from goqueue.core.cluster.features import unknown
from goqueue.core.cluster.formation import Formation
from goqueue.core.cluster.lagging import lagging_shards
from goqueue.core.cluster.records import NodeRecord
from goqueue.core.replication.leader import Replica
from goqueue.drive.carry_on import to_its_end
from goqueue.drive.cluster_growth import bring_own_metadata
from goqueue.drive.disk_note import DiskNote, check_cluster, lost_tail, read_note, write_note
from goqueue.drive.image_follower import ImageFollower
from goqueue.drive.membership import NodeMembership
from goqueue.drive.offload import Offload
from goqueue.drive.peers import NODE_PORT, Connect, Peers, PeerVerb, connect
from goqueue.drive.probing import PING, Probing, answer_ping
from goqueue.log.disk import Disk
from goqueue.log.home import unless_full
from goqueue.wire.node_frames import PROTOCOL, Hello

logger = logging.getLogger(__name__)

HAND_OVER_S: Final = 5.0
STEP_ASIDE_S: Final = 1.0
_TRUST_S: Final = 2.0
_SAY_S: Final = 5.0  # how often it is said that nodes are waited for


class ClusterPorts(NamedTuple):
    """The world that a node of a cluster needs beside its own machine."""

    store: Metadata
    addresses: Mapping[str, str]  # that the others are told, by door
    open_door: Callable[[Hello, Mapping[str, PeerVerb]], Awaitable[None]]  # for the other nodes
    boot: str = ""  # another one after every start of the machine
    connect: Connect = connect
    features: Mapping[str, int] = KNOWN  # that this version knows
    is_local: bool = False  # the store is that of this machine, and what a node knew is in it already


class ClusterMember:
    """`join` before any partition is opened."""

    def __init__(
        self,
        settings: Settings,
        ports: ClusterPorts,
        metadata: ImageFollower,
        disk: Disk,
        offload: Offload,
        entropy: Entropy,
    ) -> None:
        self.verbs: dict[str, PeerVerb] = {PING: answer_ping}
        self.peers = Peers(metadata.image, self.hello, ports.connect)
        self._settings = settings
        self._ports = ports
        self._metadata = metadata
        self._disk = disk
        self._offload = offload
        self._entropy = entropy
        self.me = Replica(settings.node.id, new_uuid(entropy))
        self._note = DiskNote("", settings.node.id)
        self._changed = asyncio.Event()
        self.membership: NodeMembership | None = None
        self.had_power_cut = False  # since the last start; known when it has joined
        self._probing = Probing(self.peers, self.others, self._suspicion)

    def hello(self) -> Hello:
        return Hello(PROTOCOL, self._metadata.image.cluster_id, self.me.node, self.me.start, __version__)

    @property
    def is_held(self) -> bool:
        """False once others may have been told that this node is gone."""
        return self.membership is not None and self.membership.is_held

    @property
    def is_leaving(self) -> bool:
        """It hands over what it leads, or has."""
        return self.membership is not None and self.membership.is_leaving

    def lagging(self) -> list[int]:
        """Shards in which it is not in sync."""
        return lagging_shards(self._metadata.image, self.me.node, self.me.start)

    def metadata_changed(self) -> None:
        self._changed.set()
        if self.membership is not None:
            self.membership.metadata_changed()

    # --- join and leave --------------------------------------------------------------------------------------

    async def join(self) -> str:
        """The cluster's id, when there is one: a new cluster waits for its nodes. `ForeignData`, `WrongNodeId`."""
        boot, factor = self._ports.boot, self._settings.cluster.replication_factor
        self._note = await self._offload(lambda: read_note(self._disk, self._entropy, self.me.node))
        check_cluster(self._note, self._metadata.image.cluster_id)
        if not self._ports.is_local:
            await bring_own_metadata(self._metadata, self._disk, self._offload, factor)
        self._check_known()
        self.had_power_cut = not self._note.was_stopped and self._note.boot != boot
        has_lost = lost_tail(self._note, boot, self._settings.log.fsync == "always")
        unclean = self._settings.cluster.unclean_leader_election
        self.membership = NodeMembership(
            self._metadata, self.me.node, self._record(has_lost), self._wait_s, self._formation, unclean
        )
        await self._check_trusted()
        await self._check_no_copy()
        await self.membership.join()
        cluster_id = await self._formed()
        await self._write_note(cluster_id=cluster_id, boot=boot, was_stopped=False, lost_tail=has_lost)
        await self._ports.open_door(self.hello(), self.verbs)
        self._probing.start()
        return cluster_id

    async def tell(self, **changes: object) -> None:
        """Others hear something new of this node. The store may be out of reach: `GoQueueError`."""
        if self.membership is not None:
            await self.membership.tell(**changes)

    async def _check_trusted(self) -> None:
        """A node that the others do not let in must not be counted on: `WrongSecret`. One that answers is enough. In a
        cluster that is not formed yet nobody does."""
        others = self.others() if self._metadata.image.cluster_id else ()
        tasks = [asyncio.create_task(self._greeted(node)) for node in others]
        try:
            for asked in asyncio.as_completed(tasks):
                if (told := await asked) is not None:
                    break
            else:
                return
        finally:
            for task in tasks:
                task.cancel()
        if isinstance(told, PeerUntrusted):
            raise WrongSecret(f"Other nodes do not let this one in: {told.message}", field="cluster.secret")

    async def _check_no_copy(self) -> None:
        """A start takes the place of the one before it on the same disk, which is over. If that one answers, elsewhere,
        then it has a disk of its own, and this one is a copy: `WrongNodeId`."""
        before, address = self._metadata.image.nodes().get(self.me.node), self._ports.addresses.get(NODE_PORT)
        if before is None or before.disk != self._note.disk or before.addresses.get(NODE_PORT) == address:
            return
        try:
            await self.peers.call(self.me.node, PING, b"", _TRUST_S)
        except WrongCluster:
            pass  # it lets nobody in who has its number
        except GoQueueError:
            return
        raise WrongNodeId(
            f"Node {self.me.node} is running already, at {before.addresses.get(NODE_PORT)}, and this data directory is "
            "a copy of its own. Stop that one, or give this one a number of its own and an empty directory.",
            field="node.id",
        )

    async def _greeted(self, node: int) -> PeerUntrusted | bytes | None:
        """None if it does not answer."""
        try:
            return await self.peers.call(node, PING, b"", _TRUST_S)
        except PeerUntrusted as error:
            return error
        except GoQueueError:
            return None

    async def hand_over(self, within_s: float = HAND_OVER_S) -> None:
        """Before the doors close: others lead what this node led."""
        if self.membership is not None:
            await self.membership.hand_over(within_s)

    async def step_aside(self, within_s: float = STEP_ASIDE_S) -> None:
        """Before the node stops to fetch: no leader waits for it."""
        if self.membership is not None:
            await self.membership.step_aside(within_s)

    async def stay(self) -> None:
        """It may lead again."""
        await self.tell(leaving=False)

    async def leave(self) -> None:
        """After the last sync. Others hear of it at once."""
        await self._probing.stop()
        if self.membership is not None:
            await self.membership.leave()
        self.peers.close()
        with unless_full():
            await self._write_note(was_stopped=True)

    async def note_counted(self) -> None:
        """A later start need not say what this one lost, once every shard that counts the node counts this start."""
        if (self._note.lost_tail or self._note.short) and self.is_written_down():
            await to_its_end(self._write_note(lost_tail=False, short=()))

    async def note_short(self, shards: Iterable[int]) -> tuple[int, ...]:
        """With those that an earlier start found, which came to nothing: their logs seem whole by now."""
        short = tuple(sorted({*shards, *self._note.short}))
        if short != self._note.short:
            await to_its_end(self._write_note(short=short))
        return short

    def is_written_down(self) -> bool:
        """Every shard that counts the node counts this start."""
        image, me = self._metadata.image, self.me
        records = [image.shard(shard) for shard in image.shards()]
        return all(one.starts.get(me.node) == me.start for one in records if me.node in (*one.in_sync, *one.eligible))

    async def _write_note(self, **changes: object) -> None:
        """A full disk keeps no node from starting again that was killed: nothing of its note is new."""
        note = msgspec.structs.replace(self._note, **changes)
        if note != self._note:
            await self._offload(lambda: write_note(self._disk, note))
            self._note = note

    @property
    def _wait_s(self) -> float:
        return 2 * self._settings.cluster.session_ms / 1000 + 2

    @property
    def _formation(self) -> Formation:
        cluster = self._settings.cluster
        return Formation(cluster.nodes, cluster.replication_factor, self._settings.node.shards or SHARDS_DEFAULT)

    def _record(self, has_lost: bool) -> NodeRecord:
        addresses, rack = dict(self._ports.addresses), self._settings.cluster.rack
        disk, features = self._note.disk, dict(self._ports.features)
        return NodeRecord(__version__, self.me.start, addresses, rack, disk, has_lost, opening=True, features=features)

    def _check_known(self) -> None:
        if missing := unknown(self._metadata.image.features(), self._ports.features):
            raise ClusterTooNew(
                f"The cluster uses what version {__version__} does not know: {', '.join(missing)}. Start the version "
                "that the other nodes have, or a later one."
            )

    async def _formed(self) -> str:
        image = self._metadata.image
        while not image.shards() or not image.cluster_id:
            self._changed.clear()
            try:
                async with asyncio.timeout(_SAY_S):
                    await self._changed.wait()
            except TimeoutError:
                facts = {"there": sorted(image.nodes()), "wanted": self._settings.cluster.nodes}
                logger.warning("waiting for the nodes of a new cluster", extra=facts)
        logger.info("in the cluster", extra={"cluster": image.cluster_id})
        return image.cluster_id

    # --- the others ------------------------------------------------------------------------------------------

    def others(self) -> set[int]:
        return set(self._metadata.image.nodes()) - {self.me.node}

    def _suspicion(self) -> None:
        if self.membership is not None:
            self.membership.suspect(self._probing.suspected)
