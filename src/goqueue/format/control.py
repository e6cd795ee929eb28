"""Control batches: the markers that end a transaction in a partition."""

from __future__ import annotations

import struct
from typing import Final

from goqueue.base.ids import Millis
from goqueue.format.batch import CONTROL_BIT, HEADER_BYTES, MAGIC, TRANSACTIONAL_BIT, BatchHeader, Buffer, assemble
from goqueue.format.records import decode

_KEY: Final = struct.Struct(">hh")  # version, type
_RECORD: Final = struct.Struct(">5shhchic")  # key and value (version, epoch) between sizes that never change
_BEFORE_KEY: Final = b"\x20\0\0\0\x08"
_BEFORE_VALUE: Final = b"\x0c"
_NO_HEADERS: Final = b"\0"
_ABORT: Final = 0
_COMMIT: Final = 1


def marker(producer_id: int, epoch: int, committed: bool, now: Millis, coordinator_epoch: int = 0) -> bytes:
    """The batch that commits or aborts what the producer wrote."""
    kind = _COMMIT if committed else _ABORT
    record = _RECORD.pack(_BEFORE_KEY, 0, kind, _BEFORE_VALUE, 0, coordinator_epoch, _NO_HEADERS)
    attributes = CONTROL_BIT | TRANSACTIONAL_BIT
    return assemble(BatchHeader(0, 0, -1, MAGIC, 0, attributes, 0, now, now, producer_id, epoch, -1, 1), record)


def is_commit(batch: Buffer) -> bool:
    """Whether a control batch commits; anything but a commit aborts."""
    if len(batch) == HEADER_BYTES + _RECORD.size:
        before, _, kind, *_ = _RECORD.unpack_from(batch, HEADER_BYTES)
        if before == _BEFORE_KEY:
            return bool(kind == _COMMIT)
    (record,) = decode(batch)
    _, kind = _KEY.unpack((record.key or b"")[: _KEY.size])
    return bool(kind == _COMMIT)
