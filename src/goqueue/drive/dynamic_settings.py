"""Settings that were changed while the node ran, durable in one note: they hold over what the node was started with."""

from __future__ import annotations

import logging
from typing import Final

import msgspec

from goqueue.log.crc_json import decode_crc_json, encode_crc_json
from goqueue.log.disk import Disk
from goqueue.log.home import refused_when_full

logger = logging.getLogger(__name__)

_FILE: Final = "dynamic-settings"


class DynamicSettings(msgspec.Struct, frozen=True):
    """By Kafka's name. What is set for this node goes before what is set for all nodes."""

    node: dict[str, str] = {}
    cluster: dict[str, str] = {}


def load_dynamic_settings(disk: Disk) -> DynamicSettings:
    """Blocks; runs off the loop."""
    data = disk.read_file(_FILE)
    known = decode_crc_json(data, DynamicSettings)
    if known is None and data is not None:
        logger.error("settings that were changed while the node ran cannot be read", extra={"path": _FILE})
    return known or DynamicSettings()


def save_dynamic_settings(disk: Disk, settings: DynamicSettings) -> None:
    """Safe when it returns. Blocks; runs off the loop."""
    with refused_when_full():
        disk.write_file(_FILE, encode_crc_json(settings))
