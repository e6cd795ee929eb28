"""Who this data belongs to: a cluster id, made once and kept."""

from __future__ import annotations

from typing import Final

import msgspec

from goqueue.base.entropy import Entropy, new_uuid
from goqueue.log.crc_json import decode_crc_json, encode_crc_json
from goqueue.log.disk import Disk
from goqueue.log.home import refused_when_full

_FILE: Final = "identity"


class Identity(msgspec.Struct, frozen=True):
    cluster_id: str


def load_identity(disk: Disk, entropy: Entropy) -> Identity:
    """Blocks; runs off the loop."""
    known = decode_crc_json(disk.read_file(_FILE), Identity)
    if known is None:
        known = Identity(new_uuid(entropy))
        with refused_when_full():
            disk.write_file(_FILE, encode_crc_json(known))
    return known
