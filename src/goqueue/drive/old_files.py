"""What earlier versions kept in files of its own becomes metadata, once: topics, settings, producer ids, identity.

A file is removed when everything is safe in the store, so a start that is interrupted does the rest again. What cannot
be read is reported and left alone, with its data.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Final, TypeAlias, TypeVar

import msgspec

from goqueue.base.limits import METADATA_COMMIT_KEYS_MAX
from goqueue.base.metadata import ABSENT, Commit, Metadata
from goqueue.base.names import is_name
from goqueue.core.cluster.records import (
    ALL_NODES,
    CLUSTER,
    PRODUCER_IDS,
    SETTINGS,
    TOPICS,
    ChangedSettings,
    ClusterRecord,
    ReservedIds,
    TopicRecord,
    encode,
)
from goqueue.drive.offload import Offload
from goqueue.log.crc_json import decode_crc_json
from goqueue.log.disk import Disk

logger = logging.getLogger(__name__)

_TOPIC_FILES: Final = "topics"
_TOPIC: Final = ".topic"
_DELETING: Final = ".deleting"

T = TypeVar("T")
_Found: TypeAlias = tuple[str, str, str]  # a file, and the key and value that it becomes


class _Settings(msgspec.Struct, frozen=True):
    node: dict[str, str] = {}
    cluster: dict[str, str] = {}


async def take_over_old_files(disk: Disk, offload: Offload, store: Metadata, node_id: int) -> None:
    """Before the store is used. A directory that has none of these files is left as it is."""
    found = await offload(lambda: [*_topics(disk), *_facts(disk, node_id)])
    known = (await store.read()).entries
    missing = [(key, value) for _, key, value in found if key not in known]
    for begin in range(0, len(missing), METADATA_COMMIT_KEYS_MAX):
        puts = dict(missing[begin : begin + METADATA_COMMIT_KEYS_MAX])
        await store.commit(Commit(puts, modified=dict.fromkeys(puts, ABSENT)))
    if found:
        await offload(lambda: _remove(disk, sorted({path for path, _, _ in found})))


def _topics(disk: Disk) -> Iterator[_Found]:
    for file in disk.names(_TOPIC_FILES):
        path = f"{_TOPIC_FILES}/{file}"
        record = decode_crc_json(disk.read_file(path), TopicRecord)
        if record is None or not is_name(record.name) or file not in (record.name + _TOPIC, record.name + _DELETING):
            logger.error("not a topic record, left alone", extra={"path": path})
            continue
        is_gone = record.deleting or file.endswith(_DELETING)
        yield path, TOPICS + record.name, encode(msgspec.structs.replace(record, deleting=is_gone))


def _facts(disk: Disk, node_id: int) -> Iterator[_Found]:
    if (cluster := _fact(disk, "identity", ClusterRecord)) is not None:
        yield "identity", CLUSTER, encode(cluster)
    if (reserved := _fact(disk, "producer-ids", ReservedIds)) is not None:
        yield "producer-ids", PRODUCER_IDS, encode(reserved)
    if (settings := _fact(disk, "dynamic-settings", _Settings)) is not None:
        yield "dynamic-settings", SETTINGS + ALL_NODES, encode(ChangedSettings(settings.cluster))
        yield "dynamic-settings", f"{SETTINGS}{node_id}", encode(ChangedSettings(settings.node))


def _fact(disk: Disk, path: str, kind: type[T]) -> T | None:
    data = disk.read_file(path)
    fact = decode_crc_json(data, kind)
    if fact is None and data is not None:
        logger.error("a note of an earlier version cannot be read, left alone", extra={"path": path})
    return fact


def _remove(disk: Disk, paths: list[str]) -> None:
    for path in paths:
        disk.remove(path)
    for directory in sorted({path.rpartition("/")[0] for path in paths}):
        disk.sync_dir(directory)
