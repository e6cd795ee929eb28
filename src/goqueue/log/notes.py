"""What a partition notes beside its segments: its own facts in `meta.json`, and the checkpoint of the last sync.

Both have to agree with the log: facts are written before a sync or a seal promises what they speak of, and a cut takes
the checkpoint back first. Facts change on the event loop; they are written on any thread.
"""

from __future__ import annotations

import threading
from typing import Final

import msgspec

from goqueue.base.ids import Epoch, Offset
from goqueue.log.checkpoint import Meta, SegmentCheckpoint, forget_checkpoint, write_checkpoint
from goqueue.log.crc_json import decode_crc_json, encode_crc_json
from goqueue.log.disk import Disk
from goqueue.log.epoch_history import NO_EPOCH, begun, cut_tail
from goqueue.log.home import SegmentHome, unless_full

META_FILE: Final = "meta.json"


def topic_of(disk: Disk, directory: str) -> str:
    """The id of the topic whose messages are there; empty if nothing says so."""
    meta = decode_crc_json(disk.read_file(f"{directory}/{META_FILE}"), Meta)
    return "" if meta is None else meta.topic_id


class LogNotes:
    """One partition's."""

    def __init__(self, home: SegmentHome, meta: Meta, is_changed: bool, has_directory: bool) -> None:
        self.meta = meta
        self.epoch: Epoch = NO_EPOCH  # that of the last append
        self._home = home
        self._disk = home.disk
        self._is_changed = is_changed  # since it was last written
        self._has_directory = has_directory
        self._lock = threading.Lock()

    @property
    def cuts(self) -> int:
        """How often the log was cut."""
        return self.meta.cuts

    @property
    def is_changed(self) -> bool:
        """Something is not written yet."""
        return self._is_changed

    def change(self, **changes: object) -> None:
        self.meta = msgspec.structs.replace(self.meta, **changes)
        self._is_changed = True

    def begin_epoch(self, epoch: Epoch, first_offset: Offset) -> None:
        self.epoch = epoch
        if (epochs := begun(self.meta.epochs, epoch, first_offset)) != self.meta.epochs:
            self.change(epochs=epochs)

    def write(self) -> None:
        """Makes the facts durable."""
        with self._lock:
            self.make_directory()
            self._is_changed = False  # what changes from here on is written the next time
            try:
                self._disk.write_file(f"{self._home.directory}/{META_FILE}", encode_crc_json(self.meta))
            except OSError:
                self._is_changed = True
                raise

    def write_changed(self) -> None:
        """Runs off the loop, before a sync or a seal promises what the facts have to agree with."""
        if self._is_changed:
            self.write()

    def begin_files(self) -> None:
        """Before the log's first file: if the process is killed, whose messages these are is there as they are."""
        if self._has_directory:
            return
        self.make_directory()
        path = f"{self._home.directory}/{META_FILE}"
        if self._disk.read_file(path) is None:
            with unless_full():
                self._disk.write_file(path, encode_crc_json(self.meta), durable=False)

    def directory_lost(self) -> None:
        """Somebody deleted it: whatever is written next makes it again."""
        self._has_directory = False

    def make_directory(self) -> None:
        """The log's own, if it is not there yet."""
        if not self._has_directory:
            self._home.begun()
            self._disk.make_dirs(self._home.directory)
            self._has_directory = True

    def write_checkpoint(self, checkpoint: SegmentCheckpoint, cuts: int) -> None:
        """Runs off the loop; one that a cut overtook promises nothing."""
        with self._lock, unless_full():
            if cuts == self.cuts and not self._is_changed:
                write_checkpoint(self._disk, self._home.directory, checkpoint)

    def begin_cut(self) -> None:
        """The old promise must be gone before the bytes are, and so must what the journal holds of them."""
        self.change(cuts=self.cuts + 1)
        self.write()
        with self._lock:
            forget_checkpoint(self._disk, self._home.directory)

    def take_back(self, end: Offset) -> None:
        """What was said of offsets that are gone."""
        before, self.epoch = self.meta, NO_EPOCH  # the next append looks which was the last
        marks = {name: min(getattr(before, name), end) for name in ("compacted_to", "gaps_to", "deleted_to")}
        self.change(**marks, epochs=cut_tail(before.epochs, end))
        if self.meta != before:
            self.write()
