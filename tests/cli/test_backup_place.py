"""Backups in a directory, without a node: whose files are whose, what is synced, and restores that go on."""

from __future__ import annotations

import errno
import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from goqueue.api.backups import BackupPart
from goqueue.cli.backup_copy import BackupCopy
from goqueue.cli.backup_directory import DirectoryPlace
from goqueue.cli.backup_restore import Restore
from goqueue.cli.backup_store import BackupEntry, BackupStore, Manifest, ObjectPart
from goqueue.cli.failures import Failed, Misused
from goqueue.log.snapshot import UNFINISHED, SnapshotFile
from tests.cli.running import goqueue

FIRST, SECOND, THIRD = (f"2026010{day}T000000.000Z" for day in (1, 2, 3))


def whole(store: BackupStore, **files: bytes) -> Manifest:
    """Each file is an object of its own."""
    entries = [
        BackupEntry(path, len(data), "", [ObjectPart(store.put(data), 0, len(data))]) for path, data in files.items()
    ]
    return Manifest(1, 0, "1", entries)


def write(path: Path, data: bytes = b"x") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def test_files_of_others_are_no_backups_and_are_not_deleted(tmp_path: Path) -> None:
    store, digest = BackupStore(DirectoryPlace(tmp_path)), "ab" * 32
    with store.changing():
        store.finish(FIRST, whole(store, old=b"old"))
        store.finish(SECOND, whole(store, new=b"new"))
    manifest = (tmp_path / f"backups/{SECOND}.json").read_bytes()
    others = [
        write(tmp_path / "objects/photos/cat.jpg"),
        write(tmp_path / f"objects/cd/{digest}"),
        write(tmp_path / f"objects/ab/deep/{digest}"),
        write(tmp_path / f"backups/old/{THIRD}.json", manifest),
        write(tmp_path / f"backups/old-{THIRD}.json", manifest),
        write(tmp_path / "backups/db/x.json"),
        write(tmp_path / "backups/package.json"),
    ]
    left = [write(tmp_path / f"objects/ab/{digest}{end}") for end in ("", ".tmp")]
    left.append(write(tmp_path / f"backups/{THIRD}.json.tmp"))
    assert store.names() == [FIRST, SECOND]
    for flag in ("--list", "--verify"):
        assert goqueue("backup", str(tmp_path), flag).exit_code == 0
    with store.changing():
        assert store.keep(1) == 1
    assert store.names() == [SECOND] and all(path.exists() for path in others)
    assert not any(path.exists() for path in left)
    old, new = (tmp_path / "objects" / name[:2] / name for name in map(digest_of, (b"old", b"new")))
    assert new.exists() and not old.exists()


def test_a_directory_that_cannot_be_listed_is_not_taken_for_empty(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = BackupStore(DirectoryPlace(tmp_path))
    with store.changing():
        store.finish(FIRST, whole(store, file=b"bytes"))
    objects = sorted(tmp_path.glob("objects/*/*"))

    def broken(path: Any = ".") -> Any:
        raise OSError(errno.EIO, "it cannot be read", path)

    with monkeypatch.context() as patched, store.changing(), pytest.raises(OSError, match="cannot be read"):
        patched.setattr("os.scandir", broken)
        store.keep(1)
    (tmp_path / f"backups/{FIRST}.json").rename(tmp_path / "elsewhere.json")
    with store.changing(), pytest.raises(Failed, match="nothing is deleted"):
        store.keep(1)
    assert sorted(tmp_path.glob("objects/*/*")) == objects


def test_a_restore_that_was_killed_at_once_can_be_given_again(tmp_path: Path) -> None:
    store = BackupStore(DirectoryPlace(tmp_path / "backup"))
    with store.changing():
        store.finish(FIRST, whole(store, file=b"bytes"))
    write(tmp_path / f"data/{UNFINISHED}.tmp")
    Restore(store, tmp_path / "data", lambda done: None).run(FIRST, store.manifest(FIRST), lambda: None)
    assert (tmp_path / "data/file").read_bytes() == b"bytes"


def digest_of(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def test_directories_of_others_are_not_synced_and_those_that_a_backup_relies_on_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: set[str] = set()
    monkeypatch.setattr("goqueue.cli.backup_directory.sync_directory", lambda path: synced.add(path.name))
    (tmp_path / "made/lost+found").mkdir(parents=True)
    interrupted = BackupStore(DirectoryPlace(tmp_path / "made"))
    with interrupted.changing():
        name = interrupted.put(b"left by an interrupted backup")
    store = BackupStore(DirectoryPlace(tmp_path / "made"))
    with store.changing():
        manifest = whole(store, file=b"left by an interrupted backup")
        store.finish(FIRST, manifest)
    assert synced == {"made", "objects", name[:2], "backups"}


def test_the_entry_of_a_new_directory_is_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[Path] = []
    monkeypatch.setattr("goqueue.cli.backup_directory.sync_directory", synced.append)
    with DirectoryPlace(tmp_path / "one/two").changing():
        assert set(synced) == {tmp_path, tmp_path / "one"}


@pytest.mark.parametrize(("number", "is_damage"), [(errno.EIO, True), (errno.EACCES, False), (errno.ETIMEDOUT, False)])
def test_only_what_the_disk_cannot_read_is_damage(
    number: int, is_damage: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(path: Path) -> bytes:
        raise OSError(number, "refused", str(path))

    monkeypatch.setattr(Path, "read_bytes", fail)
    store = BackupStore(DirectoryPlace(tmp_path))
    if is_damage:
        assert store.get("ab" * 32) is None
    else:
        with pytest.raises(OSError, match="refused"):
            store.get("ab" * 32)


@pytest.mark.parametrize(
    "target",
    [
        *("gs://bucket/main", "file:///backups", "s3:/bucket/main", "s3:bucket", "S3:/b"),
        *("s3://", "S3:///main", "s3://b/x?y", "s3://b/x#y"),
    ],
)
def test_an_address_that_is_neither_a_directory_nor_a_bucket_is_refused(
    target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for arguments in (("backup", target, "--list"), ("backup", target), ("restore", target, "--data", "new")):
        done = goqueue(*arguments)
        assert done.exit_code == 2 and "s3://BUCKET" in done.stderr, done.output
    assert not list(tmp_path.iterdir())


class CountedPlace(DirectoryPlace):
    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.reads: Counter[str] = Counter()
        self.renewals = 0

    def read(self, key: str) -> bytes | None:
        self.reads[key] += 1
        return super().read(key)

    def renew(self) -> None:
        self.renewals += 1


def interleaved(store: BackupStore) -> Manifest:
    """Files of many partitions in a few packs, by turns, with a large piece between."""
    packs = [bytes([number]) * 64 for number in range(4)]
    names = [store.put(pack) for pack in packs]
    files = []
    for number in range(24):
        parts = [ObjectPart(store.put(b"%d" % number * 40), 0, 40), ObjectPart(names[number % 4], number, 8)]
        files.append(BackupEntry(f"logs/{number:02d}", 48, "", parts))
    return Manifest(1, 0, "1", files)


def test_a_restore_reads_a_pack_once(tmp_path: Path) -> None:
    place = CountedPlace(tmp_path / "copies")
    store = BackupStore(place)
    manifest = interleaved(store)
    Restore(store, tmp_path / "new", lambda done: None).run(FIRST, manifest, lambda: None)
    assert set(place.reads.values()) == {1}
    assert (tmp_path / "new/logs/09").read_bytes() == (b"9" * 40) + bytes([1]) * 8


def test_what_a_restore_keeps_in_memory_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("goqueue.cli.backup_restore._SHARED_BYTES_MAX", 3 * 64)
    place = CountedPlace(tmp_path / "copies")
    store = BackupStore(place)
    manifest = interleaved(store)
    Restore(store, tmp_path / "new", lambda done: None).run(FIRST, manifest, lambda: None)
    assert max(place.reads.values()) > 1
    assert all((tmp_path / "new" / file.path).stat().st_size == 48 for file in manifest.files)


def test_a_restore_does_not_go_on_with_another_backup(tmp_path: Path) -> None:
    store, data = BackupStore(DirectoryPlace(tmp_path / "copies")), tmp_path / "new"
    first, second = whole(store, one=b"1", two=b"1"), whole(store, one=b"2")

    def break_off() -> None:
        raise KeyboardInterrupt

    def restore(name: str, manifest: Manifest, finish: Any = lambda: None) -> None:
        Restore(store, data, lambda done: None).run(name, manifest, finish)

    with pytest.raises(KeyboardInterrupt):
        restore(FIRST, first, break_off)
    with pytest.raises(Misused, match=f"--backup {FIRST}"):
        restore(SECOND, second)
    assert (data / "one").read_bytes() == b"1" and (data / UNFINISHED).exists()
    restore(FIRST, first)
    assert {path.name for path in data.iterdir()} == {"one", "two"}


class GrowingLog:
    """A node with one file, whose digests take long."""

    taken_ms, version, nodes = 0, "1", list[int]()

    def __init__(self, data: bytes, place: CountedPlace) -> None:
        self._data, self._place = data, place
        self.files = [SnapshotFile("logs/jobs", len(data))]
        self.renewals: list[int] = []

    def read(self, parts: Sequence[BackupPart]) -> bytes:
        return b"".join(self._data[part.position : part.position + part.size] for part in parts)

    def digests(self, parts: Sequence[BackupPart]) -> Iterator[str]:
        for part in parts:
            self.renewals.append(self._place.renewals)
            yield digest_of(self.read([part]))


def test_the_lock_is_renewed_while_pieces_are_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("goqueue.cli.backup_copy._CHUNK", 4)
    place = CountedPlace(tmp_path)
    store = BackupStore(place)
    with store.changing():
        store.finish(FIRST, BackupCopy(GrowingLog(b"abcdefgh", place), store, lambda done: None).run())
        grown = GrowingLog(b"abcdefghijkl", place)
        copy = BackupCopy(grown, store, lambda done: None)
        copy.run()
    assert copy.copied.copied_bytes == 4
    assert len(grown.renewals) == 2 and grown.renewals[0] < grown.renewals[1]
