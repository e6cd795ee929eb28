"""`goqueue backup` and `goqueue restore`."""

from __future__ import annotations

import os
import socket
import time
from contextlib import AbstractContextManager
from pathlib import Path

import click
import msgspec

from goqueue.base.settings import load_settings
from goqueue.base.startup_errors import SettingsInvalid
from goqueue.cli.backup_copy import BackupCopy
from goqueue.cli.backup_nodes import (
    check_settings,
    files_of_node,
    mark_restored,
    metadata_file,
    restore_files,
    restore_store,
    without_metadata,
)
from goqueue.cli.backup_restore import Restore, damaged_files, refuse_damaged
from goqueue.cli.backup_source import BackupSource, NodeSource, running, stopped
from goqueue.cli.backup_store import BackupStore, Manifest, place_of
from goqueue.cli.failures import Failed, Misused
from goqueue.cli.options import output_option, server_option
from goqueue.cli.progress import progress_bar
from goqueue.cli.show import counted, print_json_line, remark, show_rows, time_text


class _Shown(msgspec.Struct):
    """A line of the list."""

    name: str
    taken_ms: int
    version: str
    files: int
    size_bytes: int


class _Done(msgspec.Struct):
    """How a backup went."""

    name: str
    taken_ms: int
    files: int
    size_bytes: int
    copied_bytes: int
    pause_ms: float | None


@click.command()
@click.argument("target", metavar="DIR|s3://BUCKET/PREFIX")
@click.option("--data", type=click.Path(path_type=Path), metavar="DIR", help="The data directory of a stopped node.")
@click.option("--keep", type=click.IntRange(1), metavar="N", help="Delete all but the newest N backups afterwards.")
@click.option("--list", "is_list", is_flag=True, help="Show the backups there; make none.")
@click.option("--verify", is_flag=True, help="Read the backups there and check every byte; make none.")
@output_option
@server_option
def backup(
    target: str, data: Path | None, keep: int | None, is_list: bool, verify: bool, output: str, server: str
) -> None:
    """Back up a node or a cluster into a directory, or into a bucket of S3.

    It may hold earlier backups: only what is new is copied. Nodes go on meanwhile. With --data the directory of
    a node that does not run is backed up. A backup that was interrupted goes on when the command is given again. The
    exit code is 1 if --verify finds damage.
    """
    store = BackupStore(place_of(target))
    if is_list:
        _list(store, output)
    elif verify:
        _verify(store)
    else:
        with store.changing():
            _back_up(store, running(server) if data is None else stopped(data), output)
            deleted = 0 if keep is None else store.keep(keep)
        if deleted:
            remark(f"{counted(deleted, 'older backup')} deleted.")


def _list(store: BackupStore, output: str) -> None:
    found = [_shown(name, store.manifest(name)) for name in store.names()]
    rows = [(one.name, time_text(one.taken_ms), one.version, str(one.files), str(one.size_bytes)) for one in found]
    show_rows(output, found, ("BACKUP", "TAKEN", "VERSION", "FILES", "BYTES"), rows)


def _shown(name: str, manifest: Manifest) -> _Shown:
    return _Shown(name, manifest.taken_ms, manifest.version, len(manifest.files), manifest.size_bytes)


def _verify(store: BackupStore) -> None:
    names = store.names()
    if not names:
        raise Misused(f"There is no backup in {store.name}.")
    for name in names:
        manifest = store.manifest(name)
        with progress_bar(name, manifest.size_bytes, "bytes") as show:
            refuse_damaged(name, damaged_files(store, manifest, show))
        remark(f"{name}: {counted(len(manifest.files), 'file')}, no damage")


def _back_up(store: BackupStore, opened: AbstractContextManager[BackupSource], output: str) -> None:
    with opened as source:
        with progress_bar("backup", sum(file.size_bytes for file in source.files), "bytes") as show:
            copy = BackupCopy(source, store, show)
            manifest = copy.run()
        name = _name(manifest.taken_ms)
        store.finish(name, manifest)
        pause_ms = source.pause_ms if isinstance(source, NodeSource) else None
    told = copy.copied
    done = _Done(name, manifest.taken_ms, told.files, told.size_bytes, told.copied_bytes, pause_ms)
    if output != "table":
        print_json_line(done)
        return
    paused = "" if pause_ms is None else f" The node stood still for {pause_ms:g} ms."
    remark(
        f"Backup {name}: {counted(told.files, 'file')}, {counted(told.size_bytes, 'byte')}, "
        f"{told.copied_bytes:,} of them copied.{paused}"
    )


def _name(taken_ms: int) -> str:
    return time.strftime("%Y%m%dT%H%M%S", time.gmtime(taken_ms / 1000)) + f".{taken_ms % 1000:03d}Z"


@click.command()
@click.argument("source", metavar="DIR|s3://BUCKET/PREFIX")
@click.option("--data", type=click.Path(path_type=Path), metavar="DIR", help="Where; it must be empty.")
@click.option("--config", type=click.Path(path_type=Path), metavar="FILE", help="Of a cluster: the node's settings.")
@click.option("--backup", "name", metavar="NAME", help="Which backup; default: the newest.")
def restore(source: str, data: Path | None, config: Path | None, name: str | None) -> None:
    """Make a data directory from a backup. Start a node with it: goqueue serve --data DIR.

    A backup of a cluster is restored on each machine, with the settings file of its node, into a new store.
    """
    store = BackupStore(place_of(source))
    names = store.names()
    if not names:
        raise Failed(f"There is no backup in {source}.")
    name = name or names[-1]
    manifest = store.manifest(name)
    if manifest.nodes:
        files, place = _restore_node(store, name, manifest, data, config)
    elif data is None:
        raise Misused("Say where the data is to be: --data DIR.")
    else:
        files, place = _restore_machine(store, name, manifest, data), data
    remark(f"Restored {name}, taken {time_text(manifest.taken_ms)}: {counted(files, 'file')} in {place}.")


def _restore_machine(store: BackupStore, name: str, manifest: Manifest, data: Path) -> int:
    """One node, or all processes of one machine."""
    shared, own = metadata_file(manifest), without_metadata(manifest)
    with progress_bar("restore", manifest.size_bytes, "bytes") as show:
        restoring = Restore(store, data, show)

        def finish() -> None:
            mark_restored(data)
            if shared is not None:
                restore_files(data, restoring.metadata(name, shared))

        restoring.run(name, own, finish)
    return len(own.files)


def _restore_node(
    store: BackupStore, name: str, manifest: Manifest, data: Path | None, config: Path | None
) -> tuple[int, Path]:
    """One node of a cluster. The first one also brings the metadata of all."""
    try:
        settings = load_settings(
            config, os.environ, {} if data is None else {"data.dir": str(data)}, socket.gethostname()
        )
    except SettingsInvalid as error:
        raise Misused(str(error)) from error
    check_settings(manifest, settings)
    shared, own, place = metadata_file(manifest), files_of_node(manifest, settings.node.id), Path(settings.data.dir)
    assert shared is not None
    with progress_bar("restore", own.size_bytes, "bytes") as show:
        restoring = Restore(store, place, show)
        entries = restoring.metadata(name, shared)
        restoring.run(name, own, lambda: mark_restored(place))
    if restore_store(settings, entries):
        remark(f"The metadata of the cluster is in {settings.cluster.store}.")
    return len(own.files), place
