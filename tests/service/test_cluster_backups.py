"""Files of several nodes are of one moment only if nobody went on before all were held."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any, cast

import pytest

from goqueue.api.backups import BackupFilesOut, BackupOut
from goqueue.base.errors import BackupRefused
from goqueue.base.limits import BACKUPS_MAX
from goqueue.core.cluster.image import Image
from goqueue.service.backups import HeldHere
from goqueue.service.cluster_backups import ClusterBackups, OneMoment
from goqueue.sim.metadata import SimMetadataStore
from tests.service.brokers import SeededEntropy


class HeldFiles:
    """What one node holds for backups."""

    def __init__(self) -> None:
        self.names: set[str] = set()

    @asynccontextmanager
    async def quiet(self) -> AsyncIterator[None]:
        yield

    def hold_now(self, name: str) -> HeldHere:
        self.names.add(name)
        return HeldHere(BackupOut(name, 0, "", 0, 0, 0), "")

    def holds(self, name: str) -> bool:
        return name in self.names

    async def ask(self, node: int, service: type, verb: str, args: tuple[Any, ...]) -> Any:
        return BackupFilesOut([], None)


def test_backups_that_nobody_ended_do_not_stand_in_the_way_of_others_for_ever() -> None:
    async def story() -> None:
        here = HeldFiles()
        router = SimpleNamespace(shards=SimpleNamespace(node=0), ask=here.ask)
        metadata = SimpleNamespace(image=Image(), store=SimMetadataStore().client())
        parts = cast(Any, router), cast(Any, here), cast(Any, metadata)
        backups = ClusterBackups(*parts, SeededEntropy(), is_machine=False)
        for _ in range(BACKUPS_MAX):
            await backups.begin()
        with pytest.raises(BackupRefused):
            await backups.begin()
        here.names.clear()  # they were ended, since nobody read them
        await backups.begin()

    asyncio.run(story())


@pytest.mark.parametrize(
    ("held", "read", "answered", "is_one"),
    [
        pytest.param(0.1, 0.2, 0.35, True, id="held before this node did, and still when all was read"),
        pytest.param(0.1, 0.2, 0.45, False, id="it may have held its files after this node did"),
        pytest.param(0.1, 0.31, 0.35, False, id="it may have gone on before the metadata was read"),
        pytest.param(0.4, 0.5, 0.35, False, id="this node was too late"),
    ],
)
def test_a_moment_is_one_by_the_clock_of_who_asks(held: float, read: float, answered: float, is_one: bool) -> None:
    assert OneMoment(asked=0.0, still_s=0.3, held=held, read=read).has(answered) is is_one
