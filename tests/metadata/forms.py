"""The forms of the metadata store, each behind one way to open it, again and again, on what it kept."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Protocol

from goqueue.base.metadata import Metadata, Revision
from goqueue.drive.embedded_metadata import EmbeddedMetadata
from goqueue.drive.etcd_calls import COMPACT, EtcdCalls, EtcdSettings
from goqueue.drive.etcd_metadata import EtcdMetadata
from goqueue.drive.local_metadata import CLUSTER, LocalMetadata
from goqueue.drive.served_metadata import ServedMetadata
from goqueue.log.disk import Disk
from goqueue.log.real_disk import RealDisk
from goqueue.sim.disk import SimDisk
from goqueue.sim.metadata import SimMetadataStore
from goqueue.sim.time import in_place
from goqueue.wire import etcd_pb2
from goqueue.wire.node_frames import PROTOCOL, Hello


class Form(Protocol):
    async def open(self) -> Metadata: ...

    async def forget(self, revision: Revision) -> None:
        """Changes up to there are no longer known one by one. Nothing to do for those that forget by themselves."""
        ...


class EmbeddedForm:
    def __init__(self, disk: Disk) -> None:
        self.disk = disk

    async def open(self) -> EmbeddedMetadata:
        store = EmbeddedMetadata(self.disk, in_place)
        await store.open()
        return store

    async def forget(self, revision: Revision) -> None: ...


class SimulatedForm:
    def __init__(self) -> None:
        self.store: SimMetadataStore | None = None

    async def open(self) -> Metadata:
        self.store = self.store or SimMetadataStore()
        return self.store.client()

    async def forget(self, revision: Revision) -> None: ...


class _Direct:
    """A link without a network."""

    def __init__(self, served: ServedMetadata) -> None:
        self._served = served

    async def call(self, verb: str, body: bytes, within_s: float) -> bytes:
        return await self._served.verbs[verb](Hello(PROTOCOL, CLUSTER, 0, "", ""), body)

    def close(self) -> None: ...


class LocalForm:
    """One process keeps it, and others ask that one."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._served: ServedMetadata | None = None

    async def open(self) -> LocalMetadata:
        if self._served is None:
            store = EmbeddedMetadata(self._disk, in_place)
            await store.open()
            self._served = ServedMetadata(store)
        local = LocalMetadata(_Direct(self._served), 1.0)
        await local.open()
        return local

    async def forget(self, revision: Revision) -> None: ...


class EtcdForm:
    """Keys of its own in an etcd that other tests use too."""

    def __init__(self, member: str) -> None:
        self.settings = EtcdSettings([member], f"test-{uuid.uuid4().hex}/", session_s=2)

    async def open(self) -> EtcdMetadata:
        store = EtcdMetadata(self.settings)
        await store.open()
        return store

    async def forget(self, revision: Revision) -> None:
        calls = EtcdCalls(self.settings)
        await calls.ask(COMPACT, etcd_pb2.CompactRequest(revision=revision))
        await calls.close()


def form_of(name: str, directory: Path, etcd: str = "") -> Form:
    if name == "simulated":
        return SimulatedForm()
    if name == "local":
        return LocalForm(SimDisk())
    if name == "etcd":
        return EtcdForm(etcd)
    return EmbeddedForm(SimDisk() if name == "embedded" else RealDisk(directory))


FORMS = ("embedded", "embedded on a real disk", "simulated", "local", "etcd")
