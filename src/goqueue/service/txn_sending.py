"""The end of a transaction over several nodes: each part is done where its shard is led.

Every call says which shard's coordinator sends it, in which epoch. A node that knows of a later one refuses: the end
was carried out by that one, and what the producer does now is another transaction.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

import msgspec

from goqueue.base.ids import Epoch, Millis, Offset
from goqueue.core.groups.requests import CommitRequest
from goqueue.core.txn.effects import TxnEffect, WriteMarker
from goqueue.core.txn.questions import ConfirmWrites, WritesConfirmed
from goqueue.core.txn.records import TxnState
from goqueue.service.elsewhere import Elsewhere, together
from goqueue.service.epoch_fence import EpochFence
from goqueue.service.txn_effects import OWNER, TransactionEffects
from goqueue.service.txn_homes import TransactionHomes

PERFORM: Final = "txn.perform"
CONFIRM: Final = "txn.confirm"
LEASES: Final = "txn.leases"
CHECK_OFFSETS: Final = "txn.check-offsets"
ENDS: Final = "txn.schedule-ends"


class SentEffect(msgspec.Struct, frozen=True):
    """By the coordinator of this shard, in this epoch."""

    shard: int
    epoch: Epoch
    effect: TxnEffect


class LeaseCall(msgspec.Struct, frozen=True):
    """Before the end: leases are looked at, are held for longer, or become the transaction's."""

    kind: Literal["check", "hold", "adopt"]
    receipts: tuple[str, ...]
    owner: str = ""
    lease_ms: Millis = 0


class SentEffects:
    """What coordinators of this node ask of others, and what it does for those of other nodes."""

    def __init__(self, here: TransactionEffects, elsewhere: Elsewhere, homes: TransactionHomes) -> None:
        self._here = here
        self._elsewhere = elsewhere
        self._homes = homes
        self._fence = EpochFence(elsewhere.shards)
        elsewhere.serve(PERFORM, SentEffect, self._performed)
        elsewhere.serve(CONFIRM, ConfirmWrites, self._confirmed)
        elsewhere.serve(LEASES, LeaseCall, self._called)
        elsewhere.serve(CHECK_OFFSETS, CommitRequest, self._checked)
        elsewhere.serve(ENDS, list[int], self._told_ends)

    def of(self, shard: int) -> ShardEffects:
        """What the coordinator of that shard sends."""
        return ShardEffects(self, shard)

    # --- before the end --------------------------------------------------------------------------------------

    async def check_offsets(self, request: CommitRequest) -> None:
        home = self._elsewhere.shards.of_id(request.group)
        if self._elsewhere.is_here(home):
            await self._here.check_offsets(request)
        else:
            await self._elsewhere.ask(home, CHECK_OFFSETS, request, bool)

    async def hold_leases(self, receipts: Sequence[str], lease_ms: Millis) -> None:
        await self._lease("hold", receipts, lease_ms=lease_ms)

    async def confirm(self, states: Sequence[TxnState]) -> list[WritesConfirmed]:
        return await together(self._confirm(state) for state in states)

    async def _confirm(self, state: TxnState) -> WritesConfirmed:
        parts = self._homes.partitions(state.partitions).items()
        asked = [(home, ConfirmWrites(state.producer_id, state.epoch, tuple(places))) for home, places in parts]
        told = await together(self._confirm_at(home, one) for home, one in asked)
        return WritesConfirmed(sum(one.messages for one in told))

    async def _confirm_at(self, home: int, asked: ConfirmWrites) -> WritesConfirmed:
        if self._elsewhere.is_here(home):
            return await self._confirmed(asked)
        return await self._elsewhere.ask(home, CONFIRM, asked, WritesConfirmed)

    async def prepare(self, states: Sequence[TxnState]) -> tuple[Offset, ...]:
        """As where all is in one place: all leases are looked at before one is taken."""
        for state in states:
            await self._lease("check", state.receipts)
        for state in states:
            if state.answers:
                await self._lease("adopt", state.receipts, OWNER + state.transactional_id)
        return await self._ends() if any(state.delayed for state in states) else ()

    async def _lease(
        self,
        kind: Literal["check", "hold", "adopt"],
        receipts: Sequence[str],
        owner: str = "",
        lease_ms: Millis = 0,
    ) -> None:
        for home, places in self._homes.receipts(receipts).items():
            call = LeaseCall(kind, tuple(receipts[place] for place in places), owner, lease_ms)
            if self._elsewhere.is_here(home):
                await self._called(call)
            else:
                await self._elsewhere.ask(home, LEASES, call, bool)

    async def _ends(self) -> tuple[Offset, ...]:
        """Of every schedule, by the number of its shard."""
        ends: dict[int, Offset] = {}
        for node, shards in self._elsewhere.leaders().items():
            if node == self._elsewhere.shards.node:
                ends |= await self._told_ends(sorted(shards))
            else:
                ends |= await self._elsewhere.ask_node(node, ENDS, sorted(shards), dict[int, Offset])
        return tuple(ends[shard] for shard in self._elsewhere.shards.all())

    # --- after it --------------------------------------------------------------------------------------------

    async def perform(self, effect: TxnEffect) -> None:
        """For who is no coordinator: an administrator, at the node that leads the partition."""
        await self._here.perform(effect)

    async def wait_durable(self, effects: Sequence[TxnEffect]) -> None:
        await self._here.wait_durable(effects)

    async def force(self) -> None:
        await self._here.force()

    async def perform_at(self, home: int, part: TxnEffect, sender: int) -> bool:
        """Whether it was done here, and is perhaps not durable yet."""
        if self._elsewhere.is_here(home):
            await self._here.perform(part)
            return True
        epoch = self._elsewhere.shards.epoch(sender)
        await self._elsewhere.ask(home, PERFORM, SentEffect(sender, epoch, part), bool)
        return False

    def parts(self, effect: TxnEffect) -> list[tuple[int, TxnEffect]]:
        return list(self._homes.parts(effect))

    # --- for other nodes -------------------------------------------------------------------------------------

    async def _performed(self, sent: SentEffect) -> bool:
        self._fence.check(sent.shard, sent.epoch)
        await self._here.perform(sent.effect)
        await self._here.wait_durable([sent.effect])
        await self._here.force()
        return True

    async def _confirmed(self, asked: ConfirmWrites) -> WritesConfirmed:
        (told,) = await self._here.confirm_writes([asked])
        return told

    async def _called(self, call: LeaseCall) -> bool:
        match call.kind:
            case "check":
                self._here.check_leases(call.receipts)
            case "adopt":
                await self._here.adopt_leases(call.receipts, call.owner)
            case "hold":
                await self._here.hold_leases(call.receipts, call.lease_ms)
        return True

    async def _checked(self, request: CommitRequest) -> bool:
        await self._here.check_offsets(request)
        return True

    async def _told_ends(self, shards: list[int]) -> dict[int, Offset]:
        return {shard: self._here.schedule_end(shard) for shard in shards}


class ShardEffects:
    """An `EffectPort` for the coordinator of one shard."""

    def __init__(self, sent: SentEffects, shard: int) -> None:
        self._sent = sent
        self._shard = shard
        self._here: set[WriteMarker] = set()  # done at this node, and perhaps not durable

    async def perform(self, effect: TxnEffect) -> None:
        for home, part in self._sent.parts(effect):
            is_here = await self._sent.perform_at(home, part, self._shard)
            if is_here and isinstance(part, WriteMarker):
                self._here.add(part)

    async def wait_durable(self, effects: Sequence[TxnEffect]) -> None:
        """What another node did is durable. What was done here is done once more before it is waited for: if another
        node leads the partition by now, or did meanwhile, the marker may be gone. What fails stays to be waited for."""
        for marker in [one for one in effects if isinstance(one, WriteMarker) and one in self._here]:
            self._here.discard(marker)
            try:
                await self.perform(marker)
                if marker in self._here:
                    await self._sent.wait_durable([marker])
            except Exception:
                self._here.add(marker)
                raise
            self._here.discard(marker)

    async def force(self) -> None:
        await self._sent.force()
