"""Backups of several nodes: which files are a node's, and the metadata that goes back into the store of all."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path

import msgspec

from goqueue.base.errors import GoQueueError, MetadataConflict
from goqueue.base.limits import DESCRIPTORS_SPARE, METADATA_COMMIT_KEYS_MAX
from goqueue.base.metadata import ABSENT, Commit, Metadata
from goqueue.base.settings import Settings
from goqueue.cli.backup_store import BackupEntry, Manifest
from goqueue.cli.failures import Failed, Misused
from goqueue.core.cluster.records import CLUSTER
from goqueue.drive.disk_note import note_restored
from goqueue.drive.embedded_metadata import EmbeddedMetadata
from goqueue.drive.offload import Threads
from goqueue.edge.peers.joining import etcd_store
from goqueue.log.real_disk import RealDisk
from goqueue.log.snapshot import process_directories
from goqueue.service.cluster_backups import STORE


def metadata_file(manifest: Manifest) -> BackupEntry | None:
    """None if one node was backed up, whose metadata is among its files."""
    return next((file for file in manifest.files if file.path == STORE), None)


def files_of_node(manifest: Manifest, node: int) -> Manifest:
    """What one node of a cluster has, with paths within its data directory."""
    prefix = f"node-{node}/"
    own = [file for file in manifest.files if file.path.startswith(prefix)]
    files = [msgspec.structs.replace(file, path=file.path.removeprefix(prefix)) for file in own]
    return msgspec.structs.replace(manifest, files=files)


def without_metadata(manifest: Manifest) -> Manifest:
    files = [file for file in manifest.files if file.path != STORE]
    return msgspec.structs.replace(manifest, files=files)


def check_settings(manifest: Manifest, settings: Settings) -> None:
    named = ", ".join(map(str, manifest.nodes))
    if not settings.cluster.store:
        raise Misused(
            f"This is a backup of a cluster of the nodes {named}. Give the settings file of the node to restore "
            "(--config FILE, with node.id, data.dir and cluster.store), on each machine."
        )
    if settings.node.id not in manifest.nodes:
        raise Misused(f"The backup has the nodes {named}, and no node {settings.node.id} (node.id).")


def mark_restored(data: Path) -> None:
    """Every byte is on the disk, so nothing that was not synced can be missing."""
    for place in (data, *process_directories(data)):
        disk = RealDisk(place, DESCRIPTORS_SPARE)
        try:
            note_restored(disk)
        finally:
            disk.close()


def restore_files(data: Path, entries: Mapping[str, str]) -> None:
    """The metadata of the processes of one machine."""

    async def put() -> None:
        disk, threads = RealDisk(data, DESCRIPTORS_SPARE), Threads(1)
        try:
            store = EmbeddedMetadata(disk, threads)
            await store.open()
            there = (await store.read()).entries
            await _put(store, {key: value for key, value in entries.items() if key not in there})
            await store.close()
        finally:
            threads.close()
            disk.close()

    asyncio.run(put())


def restore_store(settings: Settings, entries: Mapping[str, str]) -> bool:
    """The metadata of a cluster, unless it is there already: the first machine to be restored brings it."""
    try:
        return asyncio.run(_restore_store(settings, entries))
    except MetadataConflict:
        raise Failed("Somebody else writes to the store; give the command again when that is done.") from None
    except GoQueueError as error:
        raise Failed(f"The metadata cannot be written to {settings.cluster.store}: {error.message}") from error


async def _restore_store(settings: Settings, entries: Mapping[str, str]) -> bool:
    store = etcd_store(settings.cluster)
    try:
        await store.open()
        there = (await store.read()).entries
        if CLUSTER in there and there[CLUSTER].value == entries.get(CLUSTER):
            return False
        if any(entries.get(key) != one.value for key, one in there.items()):
            raise Misused(
                f"The store has something under {settings.cluster.name!r} already. Use an empty one, or another "
                "cluster.name."
            )
        rest = {key: value for key, value in entries.items() if key not in there and key != CLUSTER}
        await _put(store, rest)
        await _put(store, {key: value for key, value in entries.items() if key == CLUSTER})
        return True
    finally:
        await store.close()


async def _put(store: Metadata, entries: Mapping[str, str]) -> None:
    items = sorted(entries.items())
    for at in range(0, len(items), METADATA_COMMIT_KEYS_MAX):
        some = dict(items[at : at + METADATA_COMMIT_KEYS_MAX])
        await store.commit(Commit(some, modified=dict.fromkeys(some, ABSENT)))
