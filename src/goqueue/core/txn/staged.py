"""Staged sets: what many writers wrote for one batch of one owner, to be shown together or not at all.

A staged writer is a transactional producer whose transaction is open from the start and is committed only with its set.
An owner's last batch is remembered beside it, so that a batch is committed once however often that is asked for.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from goqueue.base.errors import InvalidField
from goqueue.base.limits import (
    STAGED_OWNER_CHARS_MAX,
    STAGED_OWNERS_MAX,
    STAGED_WRITER_CHARS_MAX,
    STAGED_WRITERS_MAX,
)
from goqueue.base.tenants import full_name, split_tenant
from goqueue.core.txn.errors import OwnersFull, TransactionTooLarge
from goqueue.core.txn.records import IDLE, TxnOwner, TxnOwnerGone, TxnState

BATCH_MAX: Final = 2**63 - 1
ATTEMPT_MAX: Final = 2**31 - 1
_PREFIX: Final = "staged"
_AWKWARD: Final = frozenset({".", ".."})  # a path cannot carry them


_Names = dict[str, dict[str, None]]  # transactional ids by owner


class NamedWriter(msgspec.Struct, frozen=True):
    """A writer as a commit names it, and how many messages it stored if it says so."""

    transactional_id: str
    producer_id: int
    epoch: int
    messages: int | None = None


def staged_id(owner: str, writer: str, attempt: int) -> str:
    """The transactional id of a writer, the same for every batch of its owner."""
    check_owner(owner)
    _check_name(writer, "writer", STAGED_WRITER_CHARS_MAX)
    if not 0 <= attempt <= ATTEMPT_MAX:
        raise InvalidField(f"attempt is a whole number from 0 to {ATTEMPT_MAX}.", field="attempt")
    tenant, own = split_tenant(owner)
    return full_name(tenant, f"{_PREFIX}/{_quoted(own)}/{_quoted(writer)}/{attempt}")


def writer_of(transactional_id: str) -> tuple[str, int]:
    """The writer and its attempt."""
    _, writer, attempt = transactional_id.rsplit("/", 2)
    return _unquoted(writer), int(attempt)


def kept_with(transactional_id: str) -> str:
    """Whose slot says where the id is kept: its own, or if it is a staged writer's id, its owner's."""
    tenant, own = split_tenant(transactional_id)
    if not own.startswith(f"{_PREFIX}/"):
        return transactional_id
    parts = own.split("/")
    return full_name(tenant, _unquoted(parts[1])) if len(parts) == 4 else transactional_id


def check_owner(owner: str) -> None:
    _, own = split_tenant(owner)
    _check_name(own, "owner", STAGED_OWNER_CHARS_MAX)
    if own in _AWKWARD:
        raise InvalidField("An owner is named neither . nor ..", field="owner")


def check_batch(batch: int) -> None:
    if not 0 <= batch <= BATCH_MAX:
        raise InvalidField(f"batch is a whole number from 0 to {BATCH_MAX}.", field="batch")


def _check_name(name: str, what: str, most: int) -> None:
    if not 0 < len(name) <= most or any(_is_unfit(one) for one in name):
        raise InvalidField(f"{what} is 1 to {most} characters, none of them a control character.", field=what)


def _is_unfit(one: str) -> bool:
    return one < " " or "\x7f" <= one < "\xa0" or "\ud800" <= one <= "\udfff"


def _quoted(name: str) -> str:
    """Two owners never come to the same id."""
    return name.replace("%", "%25").replace("/", "%2F")


def _unquoted(name: str) -> str:
    return name.replace("%2F", "/").replace("%25", "%")


class StagedSets:
    """Owners and their writers; told of every record, live and on recovery."""

    def __init__(self) -> None:
        self._owners: dict[str, TxnOwner] = {}
        self._open: _Names = {}  # whose transactions are not over
        self._idle: _Names = {}  # the others, those that ended first in front

    def apply(self, record: TxnOwner | TxnOwnerGone) -> None:
        if isinstance(record, TxnOwner):
            self._owners[record.owner] = record
        else:
            self._owners.pop(record.owner, None)

    def moved(self, before: TxnState | None, after: TxnState | None) -> None:
        """A producer is in another state, or gone."""
        if before is not None and before.owner:
            _drop(self._open, before.owner, before.transactional_id)
            _drop(self._idle, before.owner, before.transactional_id)
        if after is not None and after.owner:
            names = self._idle if after.stage in IDLE else self._open
            names.setdefault(after.owner, {})[after.transactional_id] = None

    # --- questions -------------------------------------------------------------------------------------------

    def owners(self) -> list[str]:
        """All that committed something or have something staged, by name."""
        return sorted(self._owners.keys() | self._open.keys())

    @property
    def owner_count(self) -> int:
        return len(self._owners.keys() | self._open.keys())

    def knows(self, owner: str) -> bool:
        return owner in self._owners or owner in self._open

    def of(self, owner: str) -> TxnOwner | None:
        return self._owners.get(owner)

    def last_batch(self, owner: str) -> int:
        """-1 before the first."""
        known = self._owners.get(owner)
        return -1 if known is None else known.last_batch

    def open(self, owner: str) -> list[str]:
        """Writers that are staged, or whose end is being carried out."""
        return sorted(self._open.get(owner, ()))

    def open_count(self, owner: str) -> int:
        return len(self._open.get(owner, ()))

    # --- room ------------------------------------------------------------------------------------------------

    def check_owner_room(self, owner: str, elsewhere: int = 0) -> None:
        """For the owner, if it is new. `elsewhere` is how many owners other coordinators of the node keep."""
        if not self.knows(owner) and self.owner_count + elsewhere >= STAGED_OWNERS_MAX:
            raise OwnersFull(
                f"{STAGED_OWNERS_MAX} owners of staged sets are remembered; use one owner for many batches, or let "
                "idle ones be forgotten sooner (transactions.owner_retention_ms)."
            )

    def check_writer_room(self, owner: str, elsewhere: int = 0) -> None:
        """For one more writer."""
        self.check_owner_room(owner, elsewhere)
        if self.open_count(owner) >= STAGED_WRITERS_MAX:
            raise TransactionTooLarge(
                f"An owner has at most {STAGED_WRITERS_MAX} staged writers; commit or abort some."
            )

    def surplus(self, owner: str) -> Iterator[str]:
        """Ids that may go when a new one comes: those that have been idle longest, if the owner has too many."""
        idle = self._idle.get(owner, {})
        if len(idle) + self.open_count(owner) >= STAGED_WRITERS_MAX:
            yield from idle

    def snapshot(self) -> Iterator[TxnOwner]:
        """Every owner that committed something."""
        for owner in sorted(self._owners):
            yield self._owners[owner]


def _drop(names: _Names, owner: str, name: str) -> None:
    """Leaves no empty collection behind."""
    known = names.get(owner, {})
    known.pop(name, None)
    if not known:
        names.pop(owner, None)
