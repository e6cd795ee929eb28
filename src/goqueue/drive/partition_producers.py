"""Who writes to a partition: idempotent producers with their sequences and epochs, and their open transactions."""

from __future__ import annotations

from collections.abc import Callable

from goqueue.base.ids import Millis, Offset
from goqueue.core.dedupe import Dedupe, ProducerState
from goqueue.core.partition_txns import PartitionTxns
from goqueue.drive.offload import Offload
from goqueue.drive.producers import note_batches, snapshot_producers, write_producers
from goqueue.format.batch import read_header
from goqueue.log.partition_log import PartitionLog


class PartitionProducers:
    """The producers of one partition."""

    __slots__ = ("_dedupe", "_log", "_offload", "_txns", "is_partial")

    def __init__(self, log: PartitionLog, dedupe: Dedupe, txns: PartitionTxns, offload: Offload) -> None:
        self._log = log
        self._dedupe = dedupe
        self._txns = txns
        self._offload = offload
        self.is_partial = False  # batches were damaged that would have said more

    def __len__(self) -> int:
        return len(self._dedupe)

    def all(self) -> list[ProducerState]:
        return self._dedupe.producers()

    def next_sequence(self, producer_id: int, epoch: int) -> int:
        """What the producer's next batch has to begin with."""
        return self._dedupe.next_sequence(producer_id, epoch)

    def epoch_of(self, producer_id: int) -> int:
        """The highest epoch that it wrote or was shut out with; 0 if it is not known."""
        return self._dedupe.epoch_of(producer_id)

    def last_offset(self, producer_id: int) -> Offset:
        """Of the producer's last batch; -1 if none is known."""
        return self._dedupe.last_offset(producer_id)

    def open_transactions(self) -> dict[int, Offset]:
        """The first offset of each, by producer."""
        return self._txns.open

    def is_writing(self, producer_id: int, epoch: int) -> bool:
        """A transaction of this epoch has messages here and no marker yet."""
        return self._txns.is_open(producer_id) and self._dedupe.epoch_of(producer_id) == epoch

    def needs_marker(self, producer_id: int, epoch: int) -> bool:
        """Whether a marker of this epoch says anything new: it ends a transaction, or shuts out older epochs. Not so if
        it is there already, or if a later epoch is."""
        known = self._dedupe.epoch_of(producer_id) if self._dedupe.knows(producer_id) else -1
        return epoch > known or (epoch == known and self._txns.is_open(producer_id))

    async def find_batch(self, producer_id: int, epoch: int, sequence: int) -> Offset | None:
        """Where a batch of the producer's open transaction is; among its last ones, or further back in the log."""
        mark = self._dedupe.find(producer_id, epoch, sequence)
        if mark is not None:
            return mark.base_offset
        first = self._txns.open.get(producer_id)
        if first is None:
            return None
        wanted = (producer_id, epoch, sequence)
        return await self._offload(lambda: self._search(first, wanted))

    def _search(self, first: Offset, wanted: tuple[int, int, int]) -> Offset | None:
        for batch in self._log.batches(max(first, self._log.start_offset)):
            header = read_header(batch)
            if (header.producer_id, header.producer_epoch, header.base_sequence) == wanted:
                return header.base_offset
        return None

    # --- upkeep ----------------------------------------------------------------------------------------------

    def shift(self, by_ms: Millis) -> None:
        """The clock was set."""
        self._dedupe.shift(by_ms)

    def expire(self, before: Millis) -> None:
        """Forgets producers not heard of since."""
        self._dedupe.expire(before)

    async def look_again(self, now: Millis) -> None:
        """The log is whole again: what was damaged when it was opened may be a marker, or a producer's last batch."""
        log = self._log
        while self.is_partial:
            cuts, end, dedupe, txns = log.notes.cuts, log.end_offset, Dedupe(), PartitionTxns()
            await self._offload(lambda: note_batches(log, dedupe, txns, log.start_offset, end, now))  # noqa: B023
            if log.notes.cuts == cuts:
                note_batches(log, dedupe, txns, end, log.end_offset, now)  # what came meanwhile
                self._dedupe.become(dedupe)
                self._txns.restore(txns.open, txns.aborted)
                self.is_partial = False

    def snapshot_job(self) -> Callable[[], None]:
        """Writes down producers and transactions as of now; runs off the loop. Without any it writes nothing, and if
        not all is known, nothing that is believed: the next start reads the whole log."""
        if self.is_partial:
            return lambda: write_producers(self._log, b"", is_needed=True)
        self._txns.cut_head(self._log.start_offset)
        snapshot = snapshot_producers(self._dedupe, self._txns, self._log)
        is_needed = len(self._dedupe) > 0 or not self._txns.is_empty
        return lambda: write_producers(self._log, snapshot, is_needed)
