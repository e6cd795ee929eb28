"""Requests of tenants take turns, so that one that sends too many does not crowd out the others.

In one pass of the loop requests are begun for a bounded time. The rest waits in a line, in which whoever had least of
the loop's time is next. The bound is lower while several are served at the same time, as each step of a request waits
for a whole pass. While one alone asks for anything, nothing is counted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from time import perf_counter
from typing import Final, TypeVar

from goqueue.base.commands import ANYONE, Caller
from goqueue.base.errors import Overloaded
from goqueue.base.limits import FAIR_WAIT_S_MAX
from goqueue.core.fair_queue import FairQueue, Share
from goqueue.drive.measured import is_measured, measured

T = TypeVar("T")

_REQUEST_S: Final = 0.0003  # what a request is taken to cost of somebody who was not seen yet
_PASS_S: Final = 0.0003  # for how long requests are begun in one pass of the loop
_PASS_SHARED_S: Final = 0.0001  # the same while several are served
_SLICE_S: Final = 0.0001  # for how long a connection begins requests in its turn, while others wait
_SHARED_S: Final = 60.0  # so long after another was seen, somebody counts as not alone

Waited = Callable[[str, float], None]  # the door, and for how many seconds


def share_name(caller: Caller) -> str:
    """All of a tenant have one share; whoever belongs to none has its own."""
    return f"{caller.tenant}~" if caller.tenant else caller.principal


class FairTurns:
    """Of one node. Belongs to the loop."""

    def __init__(self, waited: Waited) -> None:
        """`waited` is told of every request that did not begin at once."""
        self.waited = waited
        self._line: FairQueue[Callable[[], None]] = FairQueue(_REQUEST_S)
        self._last = ""  # who asked last
        self._is_shared = False
        self._shared_until = 0.0
        self._spent = self._budget = 0.0  # in this pass
        self._is_scheduled = False
        self._has_granted = False  # in the pass before: those requests run in this one
        self._served: Share[Callable[[], None]] | None = None  # in this pass
        self._is_mixed = False  # several were

    def share(self, caller: Caller) -> Share[Callable[[], None]] | None:
        """None if nobody else asked for anything lately: then there is nothing to wait for."""
        name = share_name(caller)
        if name == self._last and not self._is_shared:
            return None
        return self._line.share(name) if self._shares(name) else None

    def _shares(self, name: str) -> bool:
        if name == ANYONE.principal:  # it is about to show who it is
            return False
        now = perf_counter()
        if name != self._last:
            self._is_shared = self._last != ""
            self._shared_until = now + _SHARED_S
            self._last = name
        elif now > self._shared_until:
            self._is_shared = False
        return self._is_shared

    # --- requests --------------------------------------------------------------------------------------------

    async def serve(self, caller: Caller, work: Callable[[], Awaitable[T]]) -> T:
        """When it is the caller's turn; `Overloaded` if that takes too long."""
        share = self.share(caller)
        if share is None or is_measured():
            return await work()
        await self._turn(share, caller.door)
        cost = 0.0

        def spent(seconds: float) -> None:
            nonlocal cost
            cost += seconds
            self.charge(share, seconds)

        try:
            return await measured(work(), spent)
        finally:
            share.request_over(cost)

    async def turn(self, caller: Caller) -> None:
        """Before another message of a stream that is served."""
        share = self.share(caller)
        if share is not None:
            await self._turn(share, caller.door)

    async def _turn(self, share: Share[Callable[[], None]], door: str) -> None:
        if self.may_begin(share):
            self._spent += share.request_cost
            return
        granted, since = asyncio.get_running_loop().create_future(), perf_counter()

        def grant() -> None:
            if not granted.done():  # whoever waited may have gone
                self._spent += share.request_cost
                self._has_granted = True
                granted.set_result(None)

        self.wait(share, grant)
        try:
            async with asyncio.timeout(FAIR_WAIT_S_MAX):
                await granted
        except TimeoutError:
            raise Overloaded("The node is busy and others are before this request; try again in a moment.") from None
        finally:
            self.waited(door, perf_counter() - since)

    # --- turns -----------------------------------------------------------------------------------------------

    def may_begin(self, share: Share[Callable[[], None]]) -> bool:
        """Whether a request may begin at once: nobody waits, and not too many began in this pass; or others wait, and
        it would be before them all."""
        if self._line.is_empty:
            if self._spent > self._budget:
                return False
            self._schedule()
            return True
        return self._line.would_be_next(share)

    def may_go_on(self, share: Share[Callable[[], None]], since: float) -> bool:
        """Whether whoever has had its turn since then may begin another request in it: several answers of a connection
        go out together, which costs less."""
        if self._spent > self._budget:
            return False
        return perf_counter() - since <= _SLICE_S or not self._line.has_others(share)

    def wait(self, share: Share[Callable[[], None]], begin: Callable[[], None]) -> None:
        """It is called when it is its turn."""
        self._line.push(share, begin)
        self._schedule()

    def charge(self, share: Share[Callable[[], None]], seconds: float) -> None:
        """So much of the loop's time was spent for it."""
        self._line.charge(share, seconds)
        self._spent += seconds
        self._is_mixed |= self._served is not None and self._served is not share
        self._served = share

    def _schedule(self) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            asyncio.get_running_loop().call_soon(self._pass)

    def _pass(self) -> None:
        self._is_scheduled = False
        if self._has_granted:  # who comes while they run finds nobody before it in the next pass
            self._has_granted = False
            self._schedule()
            return
        self._spent = 0.0
        self._budget = _PASS_SHARED_S if self._is_mixed or self._line.is_shared else _PASS_S
        self._is_mixed, self._served = False, None
        try:
            while (found := self._line.pop()) is not None:
                found[1]()
                if self._spent > (_PASS_SHARED_S if self._has_granted else self._budget):
                    break
        finally:
            if not self._line.is_empty:
                self._schedule()


class ConnectionTurn:
    """Of a connection whose requests are begun one after the other."""

    __slots__ = ("_began", "_begin", "_door", "_has_turn", "_is_new", "_share", "_since", "_turns", "_waits")

    def __init__(self, turns: FairTurns, door: str, begin: Callable[[], None]) -> None:
        """`begin` is called when it is its turn, and asks again."""
        self._turns = turns
        self._door = door
        self._begin = begin
        self._share: Share[Callable[[], None]] | None = None  # of the request that is being begun
        self._has_turn = self._is_new = False  # no request was begun in it
        self._waits = False
        self._began = self._since = 0.0  # since when it waits, or has its turn

    def may_begin(self, caller: Caller) -> bool:
        """Whether one request may begin now; `begun` follows. If not, `begin` is called in time."""
        if self._waits:
            return False
        share = self._turns.share(caller)
        if share is not None:
            if not self._may_begin(share):
                self._waits, self._since = True, perf_counter()
                self._turns.wait(share, self._turn)
                return False
            self._is_new, self._began = False, perf_counter()
        self._share = share
        return True

    def _may_begin(self, share: Share[Callable[[], None]]) -> bool:
        if self._has_turn:
            return self._is_new or self._turns.may_go_on(share, self._since)
        return self._turns.may_begin(share)

    def begun(self) -> None:
        """What was done at once is done."""
        share = self._share
        if share is not None:
            self._turns.charge(share, perf_counter() - self._began)

    def later(self, answer: Awaitable[T]) -> Awaitable[T]:
        """What the request that is being begun does after that, counted."""
        turns, share = self._turns, self._share
        return answer if share is None else measured(answer, lambda seconds: turns.charge(share, seconds))

    def _turn(self) -> None:
        now = perf_counter()
        self._turns.waited(self._door, now - self._since)
        self._waits, self._has_turn, self._is_new, self._since = False, True, True, now
        self._begin()
        self._has_turn = False
