"""What partitions ask the transaction coordinators, wherever those are.

A partition knows a producer by its number alone, which does not tell where it is kept. So all nodes are asked the first
time, each answers for the shards that it leads, and the one that knows the producer is asked first from then on. That
nobody knows it is said only when every shard was asked.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Final, TypeVar

import msgspec

from goqueue.base.errors import GoQueueError, NotLeader, NotLoaded
from goqueue.core.txn.errors import InvalidProducerMapping
from goqueue.core.txn.questions import EpochSeen, IsOpen, MayWrite, OpenAnswer, ProducerActive, WriteAnswer
from goqueue.service.elsewhere import Elsewhere, together
from goqueue.service.txn_questions import CoordinatorQuestions

T = TypeVar("T")

ASK: Final = "txn.ask"
EPOCHS: Final = "txn.epochs-seen"
ACTIVE: Final = "txn.active"
_REMEMBERED: Final = 100_000  # producers
_ACTIVE_S: Final = 1.0  # how often it is said of a producer that it writes


class ProducerQuestion(msgspec.Struct, frozen=True):
    """One of these, about the same producer."""

    producer_id: int
    may_write: MayWrite | None = None
    is_open: IsOpen | None = None


class ProducerAnswer(msgspec.Struct, frozen=True):
    """Of these shards. Nothing if they do not know the producer."""

    shards: tuple[int, ...]
    write: WriteAnswer | None = None
    open: OpenAnswer | None = None

    @property
    def is_known(self) -> bool:
        return self.write is not None or self.open is not None


class CoordinatorsAnywhere:
    """A `CoordinatorPort`."""

    def __init__(self, here: CoordinatorQuestions, elsewhere: Elsewhere) -> None:
        self._here = here
        self._elsewhere = elsewhere
        self._nodes: dict[int, int] = {}  # by producer, where it was found last
        self._told: dict[int, float] = {}  # by producer, when it was last said that it writes
        elsewhere.serve(ASK, ProducerQuestion, self._answer)
        elsewhere.serve(EPOCHS, list[EpochSeen], self._pass_epochs)
        elsewhere.serve(ACTIVE, ProducerActive, self._heard)

    # --- for partitions --------------------------------------------------------------------------------------

    def may_write_now(self, asked: MayWrite) -> WriteAnswer | None:
        return self._here.may_write_now(asked) if self._here.knows(asked.producer_id) else None

    async def may_write(self, asked: MayWrite) -> WriteAnswer:
        told = await self._ask(ProducerQuestion(asked.producer_id, may_write=asked))
        unknown = InvalidProducerMapping(f"No transactional producer {asked.producer_id}; init again.")
        return told.write or WriteAnswer(unknown)

    async def ask_open(self, asked: IsOpen) -> OpenAnswer:
        """What nobody knows is to be aborted."""
        told = await self._ask(ProducerQuestion(asked.producer_id, is_open=asked))
        return told.open or OpenAnswer(asked.epoch)

    def is_open(self, asked: IsOpen) -> OpenAnswer:
        return self._here.is_open(asked)

    def active(self, note: ProducerActive) -> None:
        if self._here.knows(note.producer_id):
            self._here.active(note)
        elif (node := self._nodes.get(note.producer_id)) is not None and self._is_due(note.producer_id):
            self._elsewhere.spawn(self._tell_active(node, note))

    def _is_due(self, producer_id: int) -> bool:
        now = asyncio.get_running_loop().time()
        if now - self._told.get(producer_id, -_ACTIVE_S) < _ACTIVE_S:
            return False
        if len(self._told) >= _REMEMBERED:
            self._told.clear()
        self._told[producer_id] = now
        return True

    async def _tell_active(self, node: int, note: ProducerActive) -> None:
        with suppress(GoQueueError):  # one that is lost does no harm
            await self._elsewhere.ask_node(node, ACTIVE, note, bool)

    async def epoch_seen(self, seen: EpochSeen) -> bool:
        return await self.epochs_seen([seen]) > 0

    async def epochs_seen(self, seen: Sequence[EpochSeen]) -> int:
        """To how many that was news. Every node is told; each looks for the producers that it knows."""
        counts = await self._everywhere(
            lambda: self._pass_epochs(seen), lambda node: self._elsewhere.ask_node(node, EPOCHS, seen, int)
        )
        return sum(counts)

    # --- asking ----------------------------------------------------------------------------------------------

    async def _ask(self, question: ProducerQuestion) -> ProducerAnswer:
        node = self._nodes.get(question.producer_id)
        if node is not None and not self._here.knows(question.producer_id):
            with suppress(GoQueueError):  # it may be with another by now
                told = await self._elsewhere.ask_node(node, ASK, question, ProducerAnswer)
                if told.is_known:
                    return told
        return await self._search(question)

    async def _search(self, question: ProducerQuestion) -> ProducerAnswer:
        """Who knows may answer while others cannot."""
        nodes = await self._leaders()
        asked = (self._ask_one(node, question) for node in nodes)
        found = await asyncio.gather(*asked, return_exceptions=True)
        answers = [(node, one) for node, one in zip(nodes, found, strict=True) if isinstance(one, ProducerAnswer)]
        for node, one in answers:
            if one.is_known:
                self._remember(question.producer_id, node)
                return one
        for failure in found:
            if isinstance(failure, BaseException):
                raise failure
        if not {shard for _, one in answers for shard in one.shards}.issuperset(self._elsewhere.shards.with_ids()):
            raise NotLoaded("Not every coordinator of transactions can be asked; try again in a moment.")
        return ProducerAnswer(())

    async def _ask_one(self, node: int, question: ProducerQuestion) -> ProducerAnswer:
        if node == self._elsewhere.shards.node:
            return await self._answer(question)
        return await self._elsewhere.ask_node(node, ASK, question, ProducerAnswer)

    async def _leaders(self) -> list[int]:
        try:
            return list(self._elsewhere.leaders(self._elsewhere.shards.with_ids()))
        except NotLeader as error:
            raise NotLoaded(error.message) from None

    async def _everywhere(self, here: Callable[[], Awaitable[T]], there: Callable[[int], Awaitable[T]]) -> list[T]:
        nodes = await self._leaders()
        return await together(here() if node == self._elsewhere.shards.node else there(node) for node in nodes)

    def _remember(self, producer_id: int, node: int) -> None:
        if len(self._nodes) >= _REMEMBERED:
            self._nodes.clear()
        if node != self._elsewhere.shards.node:
            self._nodes[producer_id] = node

    # --- answering -------------------------------------------------------------------------------------------

    async def _answer(self, question: ProducerQuestion) -> ProducerAnswer:
        shards = tuple(self._here.shards)
        if not self._here.knows(question.producer_id):
            return ProducerAnswer(shards)
        if question.may_write is not None:
            return ProducerAnswer(shards, write=await self._here.may_write(question.may_write))
        assert question.is_open is not None
        return ProducerAnswer(shards, open=self._here.is_open(question.is_open))

    async def _pass_epochs(self, seen: Sequence[EpochSeen]) -> int:
        known = [one for one in seen if self._here.knows(one.producer_id)]
        return sum([await self._here.epoch_seen(one) for one in known])

    async def _heard(self, note: ProducerActive) -> bool:
        if self._here.knows(note.producer_id):
            self._here.active(note)
        return True
