"""A broker's life on a simulated disk, up to a power cut."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from goqueue.base.settings import Settings
from goqueue.broker import Broker
from goqueue.sim.disk import CrashMode, PowerCut, SimDisk
from goqueue.sim.time import VirtualClock, VirtualLoop, run_virtually
from tests.service.brokers import broker_alone

L = TypeVar("L")

# The long form cuts the power at every write, the short one at every third: another third for each way to lose writes.
CUT_STEP: Final = 1 if os.environ.get("GOQUEUE_LONG_TESTS") == "1" else 3
_MODES: Final[tuple[CrashMode, ...]] = ("kept", "dropped", "torn")


def first_cut(mode: CrashMode = "kept") -> int:
    return _MODES.index(mode) % CUT_STEP


def run_until_cut(disk: SimDisk, chosen: Settings, script: Callable[[Broker, L], Awaitable[None]], ledger: L) -> bool:
    """Lives the script on a new broker; True if the power went."""
    cut = False

    async def scenario(loop: VirtualLoop) -> None:
        nonlocal cut
        gone = loop.create_future()

        def on_power_cut() -> None:
            nonlocal cut
            cut = True
            if not gone.done():
                gone.set_result(None)

        disk.on_power_cut = on_power_cut

        async def life() -> None:
            broker = broker_alone(chosen, disk, VirtualClock(loop))
            await broker.start()
            await script(broker, ledger)
            await broker.stop()

        living = asyncio.ensure_future(life())
        await asyncio.wait([living, gone], return_when=asyncio.FIRST_COMPLETED)
        if cut:
            living.cancel()
            await asyncio.gather(living, return_exceptions=True)
        else:
            await living

    try:
        run_virtually(scenario)
    except PowerCut:
        assert cut
    return cut
