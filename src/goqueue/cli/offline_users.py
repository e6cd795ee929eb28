"""Users of a node that does not run: the first one has to be there before anybody can ask the node."""

from __future__ import annotations

import asyncio
from pathlib import Path

from goqueue.base.clock import SteadyClock, SystemClock
from goqueue.base.entropy import SystemEntropy
from goqueue.base.limits import DESCRIPTORS_SPARE
from goqueue.drive.embedded_metadata import EmbeddedMetadata
from goqueue.drive.image_follower import ImageFollower
from goqueue.drive.offload import Threads
from goqueue.log.data_dir import DataDir
from goqueue.log.real_disk import RealDisk
from goqueue.service.api_keys import ApiKeys
from goqueue.service.credentials import Credentials
from goqueue.service.principals import Principals


def add_offline(directory: Path, name: str, password: str) -> None:
    """Raises `DataDirInUse` if the node runs."""
    data = DataDir(directory)
    data.acquire()
    try:
        asyncio.run(_add(directory, name, password))
    finally:
        data.release()


async def _add(directory: Path, name: str, password: str) -> None:
    disk, threads, clock = RealDisk(directory, DESCRIPTORS_SPARE), Threads(1), SteadyClock(SystemClock())
    store = EmbeddedMetadata(disk, threads)
    await store.open()
    metadata = ImageFollower(store, lambda _: None)
    await metadata.start()
    try:
        keys = ApiKeys(Principals(metadata.image, clock), metadata)
        await Credentials(metadata, clock, SystemEntropy(), threads, keys).add_user(name, password)
    finally:
        await metadata.stop()
        threads.close()
        disk.close()
