"""This node's place in the cluster: registered while its session holds, and registered again when it was lost."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import Final

import msgspec

from goqueue.base.errors import GoQueueError, MetadataConflict, SessionLost
from goqueue.base.metadata import ABSENT, Commit, Revision, Session
from goqueue.base.startup_errors import WrongNodeId
from goqueue.core.cluster.controlling import Controlling
from goqueue.core.cluster.formation import Formation
from goqueue.core.cluster.records import CONTROLLER, NOBODY, NODES, ControllerRecord, NodeRecord, encode
from goqueue.drive.image_follower import ImageFollower

logger = logging.getLogger(__name__)

_RETRY_S: Final = 0.2
_COMMITS_MAX: Final = 16  # of the controller, under way at once
_DEPOSE_S: Final = 3.0  # between two times that this node deposes another
_STEADY_S: Final = 10.0  # before a node gets back what it led


class NodeMembership:
    """`join` before anything is led or followed. `session` is asked before an answer is given that others rely on."""

    def __init__(
        self,
        metadata: ImageFollower,
        node_id: int,
        record: NodeRecord,
        wait_s: float,
        formation: Formation | None = None,
        unclean: bool = False,
    ) -> None:
        """`wait_s`: how long another node of this number may still be registered that is gone. `unclean`: shards may
        get a leader that lacks something, unless their topics say otherwise."""
        self._unclean = unclean
        self._metadata = metadata
        self._node_id = node_id
        self._record = record
        self._wait_s = wait_s
        self._formation = formation
        self._suspected: frozenset[int] = frozenset()
        self._depose_after = 0.0
        self._seen: dict[str, float] = {}  # since when each start of a node is there
        self._session: Session | None = None
        self._told: NodeRecord | None = None  # what the store has of it
        self._writing = asyncio.Lock()
        self._changed = asyncio.Event()
        self._moved = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def is_held(self) -> bool:
        """False once the session could be over: others may have been told that this node is gone."""
        return self._session is not None and not self._session.is_lost

    async def join(self) -> None:
        """`WrongNodeId` if another node has this number."""
        while self._session is None:
            try:
                await self._begin_session()
            except SessionLost:
                logger.warning("the session was lost before the node was registered; trying again")
        loop = asyncio.get_running_loop()
        self._tasks = [loop.create_task(self._stay()), loop.create_task(self._control())]

    async def leave(self) -> None:
        """Others hear of it at once."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        if self._session is not None:
            await self._session.end()

    def metadata_changed(self) -> None:
        """The image has news."""
        self._changed.set()
        self._moved.set()

    def suspect(self, nodes: frozenset[int]) -> None:
        """These do not answer, as far as this node can tell."""
        self._suspected = nodes
        self._changed.set()

    async def tell(self, **changes: object) -> None:
        """Others hear something new of this node; after a lost session, when it is registered again. If it fails they
        hear of it later."""
        self._record = msgspec.structs.replace(self._record, **changes)
        if self._session is not None and not self._session.is_lost:
            await self._write(self._session)

    async def _write(self, session: Session) -> None:
        async with self._writing:
            if self._told is (record := self._record):
                return
            key = f"{NODES}{self._node_id}"
            known = self._metadata.image.modified(key)
            await self._metadata.commit(Commit({key: encode(record)}, modified={key: known}, session=session.id))
            self._told = record

    async def _begin_session(self) -> None:
        """One that the node is not registered with is not left behind: it would be renewed for ever."""
        session = await self._metadata.store.open_session()
        try:
            self._told = await self._register(session)
        except BaseException:
            await session.end()
            raise
        self._session = session

    async def _register(self, session: Session) -> NodeRecord:
        """What was told with it: there may be news by now."""
        loop = asyncio.get_running_loop()
        key, deadline = f"{NODES}{self._node_id}", loop.time() + self._wait_s
        while True:
            record = self._record
            try:
                puts = {key: encode(record)}
                await self._metadata.commit(Commit(puts, modified={key: self._expected(key)}, session=session.id))
                return record
            except MetadataConflict:
                if loop.time() > deadline:
                    message = f"Node {self._node_id} is running already; every node needs a number of its own."
                    raise WrongNodeId(message, field="node.id") from None
                await asyncio.sleep(_RETRY_S)

    def _expected(self, key: str) -> Revision:
        """An earlier start on the same disk is over, since only one at a time can hold a data directory."""
        known = self._metadata.image.nodes().get(self._node_id)
        is_ours = known is not None and known.disk == self._record.disk
        return self._metadata.image.modified(key) if is_ours else ABSENT

    async def _stay(self) -> None:
        """A session that is lost, because the store or this node stood still, is followed by another."""
        while True:
            await asyncio.sleep(_RETRY_S)
            try:
                if not self.is_held or self._node_id not in self._metadata.image.nodes():
                    await self._register_again()
                elif self._session is not None and self._told is not self._record:
                    await self._write(self._session)
            except GoQueueError as error:
                logger.error("not registered as it is; trying again", extra={"error": error.message})

    async def _register_again(self) -> None:
        """With another session, also if the one before still holds: then somebody with a copy of this node's disk had
        its place, and is gone."""
        if self._session is not None and not self._session.is_lost:
            await self._session.end()
        await self._begin_session()
        logger.warning("registered again after the session was lost")

    # --- the controller --------------------------------------------------------------------------------------

    async def _control(self) -> None:
        """Whoever makes the key decides, until its session ends. The others wait for that."""
        while True:
            self._changed.clear()  # what changes while this node decides is looked at next
            try:
                if (controlling := await self._elected()) is not None:
                    await self._decide(controlling)
            except GoQueueError as error:
                logger.warning("the controller's change was not made; looking again", extra={"error": error.message})
                await asyncio.sleep(_RETRY_S)
            await self._news()

    async def _news(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(_RETRY_S):
                await self._changed.wait()

    async def _elected(self) -> Controlling | None:
        image, session = self._metadata.image, self._session
        if session is None or session.is_lost:
            return None
        me = ControllerRecord(self._node_id, self._record.incarnation)
        await self._depose()
        if image.controller is None:
            wanted = Commit({CONTROLLER: encode(me)}, modified={CONTROLLER: ABSENT}, session=session.id)
            try:
                await self._metadata.commit(wanted)
            except MetadataConflict:
                return None
        if image.controller != me:
            return None
        return Controlling(image.created(CONTROLLER), self._formation, self._record.incarnation, self._unclean)

    def _steady(self) -> set[int]:
        """Nodes that have been there for a while."""
        now, living = asyncio.get_running_loop().time(), self._metadata.image.nodes()
        self._seen = {one.incarnation: self._seen.get(one.incarnation, now) for one in living.values()}
        return {node for node, one in living.items() if now - self._seen[one.incarnation] >= _STEADY_S}

    @property
    def is_leaving(self) -> bool:
        return self._record.leaving

    async def hand_over(self, within_s: float) -> None:
        """Returns when others lead what this node led, or nobody can, or the time is over."""
        image = self._metadata.image
        with suppress(TimeoutError, GoQueueError):
            async with asyncio.timeout(within_s):
                await self.tell(leaving=True)
                if not self.is_held:
                    return
                while len(image.nodes()) > 1 and self._leads_any():
                    self._moved.clear()
                    await self._moved.wait()

    async def step_aside(self, within_s: float) -> None:
        """Returns when no leader waits for this node any more, or the time is over: what it does not fetch from now on
        holds nobody up."""
        with suppress(TimeoutError, GoQueueError):
            async with asyncio.timeout(within_s):
                if not self._record.closing:
                    await self.tell(closing=True)
                while self.is_held and self._is_waited_for():
                    self._moved.clear()
                    await self._moved.wait()

    def _is_waited_for(self) -> bool:
        image = self._metadata.image
        records = [image.shard(shard) for shard in image.shards()]
        return any(self._node_id in one.in_sync and one.leader not in (NOBODY, self._node_id) for one in records)

    def _leads_any(self) -> bool:
        """That another could lead."""
        image = self._metadata.image
        others = {node: one.incarnation for node, one in image.nodes().items() if node != self._node_id}
        led = [record for shard in image.shards() if (record := image.shard(shard)).leader == self._node_id]
        return any(record.counts(node, start) for record in led for node, start in others.items())

    async def _depose(self) -> None:
        """A controller that does not answer is not waited for: its key goes, and with that it can change nothing. Of
        those who are left the first does it."""
        image = self._metadata.image
        found = image.controller
        if found is None or found.node not in self._suspected or found.node == self._node_id:
            return
        now = asyncio.get_running_loop().time()
        if now < self._depose_after:
            return  # two that cannot reach each other must not do this in turns for ever
        self._depose_after = now + _DEPOSE_S
        if self._node_id == min(set(image.nodes()) - self._suspected, default=self._node_id):
            logger.warning("the controller does not answer and is deposed", extra={"node": found.node})
            with suppress(MetadataConflict):
                await self._metadata.commit(
                    Commit(deletes=[CONTROLLER], modified={CONTROLLER: image.modified(CONTROLLER)})
                )

    async def _decide(self, controlling: Controlling) -> None:
        """Side by side: shards that lost their leader together do not wait for each other."""
        commits = list(controlling.commits(self._metadata.image, self._suspected, self._steady()))
        for first in range(0, len(commits), _COMMITS_MAX):
            made = (self._commit(one) for one in commits[first : first + _COMMITS_MAX])
            for error in await asyncio.gather(*made, return_exceptions=True):
                if error is not None:
                    raise error

    async def _commit(self, commit: Commit) -> None:
        with suppress(MetadataConflict):  # the image was old: the next look sees more
            await self._metadata.commit(commit)
