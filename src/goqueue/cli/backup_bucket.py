"""Backups in a bucket of S3 or of storage that speaks its protocol.

Objects are at most 4 MiB, so each is there whole or not at all. What is there is listed once, after the lock is taken.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from goqueue.cli.backup_lock import BucketLock
from goqueue.cli.backup_s3 import S3Prefix


class BucketPlace:
    """`url` is s3://BUCKET/PREFIX."""

    def __init__(self, url: str) -> None:
        self._objects = S3Prefix(url)
        self.name = self._objects.name
        self._lock = BucketLock(self._objects)
        self._sizes: dict[str, dict[str, int]] = {}  # of what each folder has, by key; of those that were listed

    @contextlib.contextmanager
    def changing(self) -> Iterator[None]:
        with self._lock.held():
            self._sizes.clear()
            yield

    def renew(self) -> None:
        self._lock.renew()

    def confirm(self) -> None:
        self._lock.confirm()

    def read(self, key: str) -> bytes | None:
        found = self._objects.get(key)
        return None if found is None else found.data

    def size(self, key: str) -> int:
        return self._listed(_folder(key)).get(key, -1)

    def keys(self, below: str) -> list[str]:
        return sorted(self._listed(below))

    def write(self, key: str, data: bytes) -> None:
        self._lock.renew()
        self._objects.put(key, data)
        self._sizes.get(_folder(key), {})[key] = len(data)

    def append(self, key: str, data: bytes) -> None:
        """Nothing: what is there is listed when the command is given again."""

    def delete(self, key: str) -> None:
        self._lock.renew()
        self._objects.delete(key)
        self._sizes.get(_folder(key), {}).pop(key, None)

    def settle(self) -> None:
        """What was answered is safe."""

    def _listed(self, folder: str) -> dict[str, int]:
        if folder not in self._sizes:
            found: dict[str, int] = {}
            for page in self._objects.sizes(folder):
                found |= page
                self._lock.renew()
            self._sizes[folder] = found
        return self._sizes[folder]


def _folder(key: str) -> str:
    return key.partition("/")[0]
