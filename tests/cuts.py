"""A broker's life on a simulated disk, up to a power cut."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeVar

import msgspec

from goqueue.base.settings import Settings
from goqueue.broker import Broker
from goqueue.sim.disk import CrashMode, PowerCut, SimDisk
from goqueue.sim.time import VirtualClock, VirtualLoop, run_virtually
from tests.long import LONG
from tests.service.brokers import broker_alone

L = TypeVar("L")

# The long form cuts the power at every write, the short one at every seventh: at others for each way to lose writes.
CUT_STEP: Final = 1 if LONG else 7
_FIRST: Final[dict[CrashMode, int]] = {"kept": 0, "dropped": 2, "torn": 4}


def first_cut(mode: CrashMode = "kept") -> int:
    return _FIRST[mode] % CUT_STEP


def tears(mode: CrashMode, cut: int, most: int = 3) -> Sequence[int]:
    """The seeds by which to tear what a cut takes: several in the long form, in the short one another for each cut."""
    if mode != "torn":
        return (0,)
    return range(most) if LONG else (cut % most,)


def at_leisure(chosen: Settings) -> Settings:
    """For a long life after the cut, of which only the end is looked at: the disk may follow slowly."""
    return msgspec.structs.replace(chosen, log=msgspec.structs.replace(chosen.log, fsync_interval_ms=10_000))


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


def steps_of(chosen: Settings, prepare: Callable[[Broker], Awaitable[object]]) -> int:
    """How often a life writes until it is so far: what comes before is cut by others."""
    disk, noted = SimDisk(), list[int]()

    async def script(broker: Broker, noted: list[int]) -> None:
        await prepare(broker)
        noted.append(disk.steps)

    assert not run_until_cut(disk, chosen, script, noted)
    return noted[0]
