"""The forms of the metadata store, each behind one way to open it, again and again, on what it kept."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from goqueue.base.metadata import Metadata
from goqueue.drive.embedded_metadata import EmbeddedMetadata
from goqueue.log.disk import Disk
from goqueue.log.real_disk import RealDisk
from goqueue.sim.disk import SimDisk
from goqueue.sim.metadata import SimMetadataStore
from goqueue.sim.time import in_place


class Form(Protocol):
    async def open(self) -> Metadata: ...


class EmbeddedForm:
    def __init__(self, disk: Disk) -> None:
        self.disk = disk

    async def open(self) -> EmbeddedMetadata:
        store = EmbeddedMetadata(self.disk, in_place)
        await store.open()
        return store


class SimulatedForm:
    def __init__(self) -> None:
        self.store: SimMetadataStore | None = None

    async def open(self) -> Metadata:
        self.store = self.store or SimMetadataStore()
        return self.store.client()


def form_of(name: str, directory: Path) -> Form:
    if name == "simulated":
        return SimulatedForm()
    return EmbeddedForm(SimDisk() if name == "embedded" else RealDisk(directory))


FORMS = ("embedded", "embedded on a real disk", "simulated")
