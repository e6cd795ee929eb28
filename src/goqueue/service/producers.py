"""Producer ids: never given twice, over restarts too. A block is reserved durably, then handed out from memory."""

from __future__ import annotations

import asyncio
from typing import Final

import msgspec

from goqueue.drive.offload import Offload
from goqueue.log.crc_json import decode_crc_json, encode_crc_json
from goqueue.log.disk import Disk
from goqueue.log.home import refused_when_full

_FILE: Final = "producer-ids"
_BLOCK: Final = 1_000


class Reserved(msgspec.Struct, frozen=True):
    """Every id below is taken or lost."""

    below: int


class ProducerIds:
    """The verb behind InitProducerId."""

    def __init__(self, disk: Disk, offload: Offload) -> None:
        self._disk = disk
        self._offload = offload
        self._lock = asyncio.Lock()
        self._next = 0
        self._below = 0
        self._loaded = False

    async def next_id(self) -> int:
        async with self._lock:
            if self._next >= self._below:
                await self._offload(self._reserve)
            given, self._next = self._next, self._next + 1
            return given

    def _reserve(self) -> None:
        if not self._loaded:
            known = decode_crc_json(self._disk.read_file(_FILE), Reserved)
            self._next = self._below = known.below if known else 0
            self._loaded = True
        with refused_when_full():
            self._disk.write_file(_FILE, encode_crc_json(Reserved(self._below + _BLOCK)))
        self._below += _BLOCK
