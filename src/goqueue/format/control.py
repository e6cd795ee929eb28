"""Control batches: the markers that end a transaction in a partition."""

from __future__ import annotations

import struct
from typing import Any, Final

from aiokafka.record.default_records import DefaultRecordBatchBuilder
from msgspec.structs import replace

from goqueue.base.ids import Millis
from goqueue.format.batch import CONTROL_BIT, HEADER_BYTES, TRANSACTIONAL_BIT, Buffer, assemble, read_header
from goqueue.format.records import decode

_KEY: Final = struct.Struct(">hh")  # version, type
_VALUE: Final = struct.Struct(">hi")  # version, coordinator epoch
_ABORT: Final = 0
_COMMIT: Final = 1


def marker(producer_id: int, epoch: int, committed: bool, now: Millis, coordinator_epoch: int = 0) -> bytes:
    """The batch that commits or aborts what the producer wrote."""
    builder: Any = DefaultRecordBatchBuilder(2, 0, 1, producer_id, epoch, -1, 1024)
    builder.append(0, now, _KEY.pack(0, _COMMIT if committed else _ABORT), _VALUE.pack(0, coordinator_epoch), [])
    batch = bytes(builder.build())
    header = read_header(batch)
    return assemble(
        replace(header, attributes=header.attributes | CONTROL_BIT | TRANSACTIONAL_BIT),
        memoryview(batch)[HEADER_BYTES:],
    )


def is_commit(batch: Buffer) -> bool:
    """Whether a control batch commits; anything but a commit aborts."""
    (record,) = decode(batch)
    _, kind = _KEY.unpack((record.key or b"")[: _KEY.size])
    return bool(kind == _COMMIT)
