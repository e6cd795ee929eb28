"""What a data directory knows of itself, beside its logs: its id, whose it is, and how the node that used it ended."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import msgspec

from goqueue.base.entropy import Entropy, new_uuid
from goqueue.base.startup_errors import ForeignData
from goqueue.log.crc_json import decode_crc_json, encode_crc_json
from goqueue.log.disk import Disk

_PATH: Final = "disk-note"
_BOOT: Final = Path("/proc/sys/kernel/random/boot_id")


class DiskNote(msgspec.Struct, frozen=True):
    disk: str
    node_id: int
    cluster_id: str = ""
    boot: str = ""  # of the machine, when a node last began to write here
    was_stopped: bool = False  # cleanly, after a last sync
    lost_tail: bool = False  # by a power cut, and shards may still count an earlier start of the node
    short: tuple[int, ...] = ()  # shards that may, and whose logs lacked their ends


def boot_id() -> str:
    """Another one after every start of the machine; empty where it cannot be told."""
    try:
        return _BOOT.read_text().strip()
    except OSError:
        return ""


def read_note(disk: Disk, entropy: Entropy, node_id: int) -> DiskNote:
    """A new one for a directory that has none. `ForeignData` if it is another node's."""
    found = decode_crc_json(disk.read_file(_PATH), DiskNote)
    if found is None:
        return DiskNote(new_uuid(entropy), node_id, was_stopped=True)
    if found.node_id != node_id:
        message = f"The data directory belongs to node {found.node_id}, not to node {node_id}."
        raise ForeignData(message, field="node.id")
    return found


def check_cluster(note: DiskNote, cluster_id: str) -> None:
    """`ForeignData` if the directory is that of a node in another cluster, also where the store has none: what begins
    anew there knows none of its topics, and nothing would lead back."""
    if note.cluster_id and note.cluster_id != cluster_id:
        stored = f"the store to cluster {cluster_id}" if cluster_id else "the store has no cluster"
        raise ForeignData(
            f"The data directory belongs to cluster {note.cluster_id}, and {stored}. Check cluster.store and "
            "cluster.name, restore the store if it lost what it had, or choose another directory with --data.",
            field="data.dir",
        )


def check_alone(disk: Disk) -> None:
    """`ForeignData` if the directory is that of a node in a cluster: what the others know of it is in their store."""
    found = decode_crc_json(disk.read_file(_PATH), DiskNote)
    if found is not None and found.cluster_id:
        raise ForeignData(
            f"The data directory belongs to cluster {found.cluster_id}; start the node with that cluster's settings "
            "(cluster.store), or choose another directory with --data.",
            field="cluster.store",
        )


def lost_tail(note: DiskNote, boot: str, syncs_always: bool) -> bool:
    """The machine went down with writes that were not synced; perhaps before a start that ended too soon to say so."""
    return note.lost_tail or (not syncs_always and not note.was_stopped and note.boot != boot)


def write_note(disk: Disk, note: DiskNote) -> None:
    disk.write_file(_PATH, encode_crc_json(note))


def note_restored(disk: Disk) -> None:
    """A backup was written here and synced: nothing is missing at its end."""
    found = decode_crc_json(disk.read_file(_PATH), DiskNote)
    if found is not None:
        write_note(disk, msgspec.structs.replace(found, was_stopped=True))
