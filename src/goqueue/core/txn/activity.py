"""When producers and owners were last heard, and when open transactions are due.

All of it is volatile: made from records, and kept by the clock as it is now.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from goqueue.base.ids import Millis
from goqueue.core.txn.deadlines import TxnDeadlines
from goqueue.core.txn.records import IDLE, Record, TxnGone, TxnOwner, TxnOwnerGone, TxnStage, TxnState


class TxnActivity:
    """Told of every record that is applied, and of every sign of life."""

    def __init__(self) -> None:
        self._heard: dict[str, Millis] = {}  # by transactional id
        self._committed: dict[str, Millis] = {}  # by owner
        self._deadlines = TxnDeadlines()
        self.next_due = self._deadlines.next

    def apply(self, record: Record) -> None:
        match record:
            case TxnState():
                self.touch(record.transactional_id, record.updated_ms)
                if record.stage is TxnStage.ONGOING:
                    self._watch(record)
            case TxnGone():
                self._heard.pop(record.transactional_id, None)
            case TxnOwner():
                self._committed[record.owner] = record.updated_ms
            case TxnOwnerGone():
                self._committed.pop(record.owner, None)

    def touch(self, name: str, now: Millis) -> None:
        """Never earlier than before."""
        if now >= self._heard.get(name, 0):
            self._heard[name] = now

    def _watch(self, state: TxnState) -> None:
        self._deadlines.set(state.transactional_id, self.due(state))

    def watch_again(self, states: Iterable[TxnState]) -> None:
        """Each that goes on is told once more when its time is up."""
        for state in states:
            if state.stage is TxnStage.ONGOING:
                self._watch(state)

    def due(self, state: TxnState) -> Millis:
        """When an open transaction is aborted: after its time, or after its producer's silence."""
        heard = max(self._heard.get(state.transactional_id, 0), state.started_ms)
        if state.owner:
            return heard + state.timeout_ms
        due = state.started_ms + state.timeout_ms
        return min(due, heard + state.session_ms) if state.session_ms else due

    def passed(self, now: Millis, most: int) -> list[str]:
        """Ids to look at; each is told once, until it is watched again."""
        return self._deadlines.passed(now, most)

    def idle_producers(self, states: Iterable[TxnState], before: Millis) -> Iterator[TxnGone]:
        """Not heard since, without an open transaction."""
        for state in states:
            if state.stage in IDLE and self._heard[state.transactional_id] <= before:
                yield TxnGone(state.transactional_id)

    def idle_owners(self, before: Millis) -> Iterator[str]:
        """Who committed nothing since."""
        return (owner for owner in sorted(self._committed) if self._committed[owner] <= before)

    def shift(self, by_ms: Millis) -> None:
        """The clock was set: who was heard a minute ago was heard a minute ago."""
        self._deadlines.shift(by_ms)
        self._heard = {name: heard + by_ms for name, heard in self._heard.items()}
        self._committed = {owner: when + by_ms for owner, when in self._committed.items()}
