"""A session with a store elsewhere is not believed for longer than it lasts."""

from __future__ import annotations

import asyncio
import time

import pytest

from goqueue.drive.renewed_session import RenewedSession, passed_s


class SilentStore:
    """As a node sees it that has just woken up."""

    async def keep_alive(self, session: int, within_s: float) -> float:
        await asyncio.sleep(3600)
        return 0.0

    async def revoke(self, session: int) -> None: ...


@pytest.mark.skipif(not hasattr(time, "CLOCK_BOOTTIME"), reason="the system does not tell how long it was suspended")
def test_a_session_is_over_when_the_machine_was_suspended_for_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    """The monotonic clock stands still meanwhile, and the store counts on."""
    gettime, suspended = time.clock_gettime, list[float]()
    monkeypatch.setattr(
        time, "clock_gettime", lambda clock: gettime(clock) + sum(suspended) * (clock == time.CLOCK_BOOTTIME)
    )

    async def story() -> None:
        session = RenewedSession(SilentStore(), 1, 5.0, passed_s())
        held = [session.is_lost]
        suspended.append(4.0)
        held.append(session.is_lost)
        suspended.append(4.0)
        held.append(session.is_lost)
        assert held == [False, False, True]
        await session.end()

    asyncio.run(story())


class LateStore:
    """Its answer comes when the session is over by our own clock, and counts the renewals."""

    def __init__(self) -> None:
        self.renewals = 0

    async def keep_alive(self, session: int, within_s: float) -> float:
        self.renewals += 1
        await asyncio.sleep(0.3)
        return 5.0

    async def revoke(self, session: int) -> None: ...


def test_a_session_that_was_taken_for_lost_is_not_renewed_any_more() -> None:
    """Another one was begun in its place: nobody would ever end this one."""

    async def story() -> None:
        store = LateStore()
        session = RenewedSession(store, 1, 0.3, passed_s())
        await asyncio.sleep(0.35)
        held = [session.is_lost]
        await asyncio.sleep(1)
        held.append(session.is_lost)
        assert held == [True, True] and store.renewals == 1
        await session.end()

    asyncio.run(story())
