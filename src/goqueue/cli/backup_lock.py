"""The lock of a bucket: an object that only one can create, by conditional writes.

Who holds it renews it, and one that nobody renewed for a quarter of an hour is taken over. Each write of it has a body
of its own, which tells whose it is: the answer to a write may be lost, and the write repeated.
"""

from __future__ import annotations

import contextlib
import time
import uuid
from collections.abc import Iterator
from typing import Final

from goqueue.cli.backup_s3 import ConditionUnmet, ObjectMissing, S3Object, S3Prefix
from goqueue.cli.failures import Failed

LOCK: Final = "lock"
_LOCK_S_MAX: Final = 15 * 60
_RENEW_S: Final = 60.0
_TRIES_MAX: Final = 5
_PAUSE_S: Final = 0.2
_CLOCK: Final = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)  # goes on while the machine is suspended
_CREATE: Final = {"IfNoneMatch": "*"}
_NEVER_MET: Final = (_CREATE, {"IfMatch": f'"{"0" * 32}"'})  # while the lock is there


class BucketLock:
    def __init__(self, objects: S3Prefix) -> None:
        self._objects = objects
        self._owner = uuid.uuid4().hex.encode()
        self._tag = ""  # of the lock as it was written last; empty while it is another's or nobody's
        self._is_lost = False
        self._renewed_s = 0.0

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        self._take()
        try:
            self._check_conditions()
            yield
        finally:
            with contextlib.suppress(Failed):  # it ends by itself
                self._release()

    def renew(self) -> None:
        """Raises `Failed` if it was lost. Only one that is held is renewed."""
        if self._is_lost or (self._tag and time.clock_gettime(_CLOCK) >= self._renewed_s + _RENEW_S):
            self.confirm()

    def confirm(self) -> None:
        """Renews it now. Raises `Failed` if it was lost."""
        for number in range(_TRIES_MAX):
            if self._is_lost:
                break
            time.sleep(number * _PAUSE_S)
            try:
                return self._put({"IfMatch": self._tag})
            except _NotWritten as error:
                self._tag = self._tag_after(error.found)
                self._is_lost = not self._tag
        raise Failed(
            f"This backup lost its lock on {self._objects.name}: another one took it over, or it was deleted. "
            "Give the command again when no other runs."
        )

    def _tag_after(self, found: S3Object | None) -> str:
        """Empty if it is not this one's any more."""
        if found is None or not found.data.startswith(self._owner):
            return ""
        return found.tag

    def _take(self) -> None:
        condition = _CREATE
        for number in range(_TRIES_MAX):
            time.sleep(number * _PAUSE_S)
            try:
                return self._put(condition)
            except _NotWritten as error:
                condition = self._condition_after(error.found)
        raise self._held_by_another()

    def _condition_after(self, found: S3Object | None) -> dict[str, str]:
        """How to take it next. Raises `Failed` while another one holds it."""
        if found is None:
            return _CREATE
        is_abandoned = found.age_s is not None and found.age_s > _LOCK_S_MAX
        if is_abandoned or found.data.startswith(self._owner):
            return {"IfMatch": found.tag}
        raise self._held_by_another()

    def _held_by_another(self) -> Failed:
        return Failed(f"Another backup writes to {self._objects.name}; wait until it ends.")

    def _check_conditions(self) -> None:
        """Storage that ignores them gives the lock to everybody."""
        for condition in _NEVER_MET:
            with contextlib.suppress(ConditionUnmet, ObjectMissing):
                self._objects.put(LOCK, self._body(), **condition)
                raise Failed(
                    f"The storage ignores conditional writes ({next(iter(condition))}), so two backups at once into "
                    f"{self._objects.name} would destroy each other. Use storage that has them, or a directory."
                )

    def _release(self) -> None:
        if self._tag and not self._is_lost:
            self.confirm()  # not all storage has conditions for deletions
            self._tag = ""
            self._objects.delete(LOCK)

    def _put(self, condition: dict[str, str]) -> None:
        """Raises `_NotWritten`."""
        body, now_s = self._body(), time.clock_gettime(_CLOCK)
        try:
            tag = self._objects.put(LOCK, body, **condition)
        except (ConditionUnmet, ObjectMissing):
            found = self._objects.get(LOCK)
            if found is None or found.data != body:
                raise _NotWritten(found) from None
            tag = found.tag
        self._tag, self._renewed_s = tag, now_s

    def _body(self) -> bytes:
        return b"%s %s\n" % (self._owner, uuid.uuid4().hex.encode())


class _NotWritten(Exception):
    """The condition did not hold; `found` is the lock afterwards."""

    def __init__(self, found: S3Object | None) -> None:
        super().__init__()
        self.found = found
