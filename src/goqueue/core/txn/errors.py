"""The error words of transactions."""

from __future__ import annotations

from goqueue.base.errors import Conflict, Invalid, NotFound, TooLarge, Unavailable


class InvalidTxnTimeout(Invalid):
    """A transaction cannot be given that long."""


class UnknownTransaction(NotFound):
    """Nobody has that transactional id."""


class InvalidProducerMapping(Conflict):
    """The producer id is not the one of the transactional id."""


class ProducerFenced(Conflict):
    """A newer incarnation of the producer took its place, or its transaction ran out of time."""


class InvalidTxnState(Conflict):
    """The transaction is not in a state that allows this."""


class StagedConflict(Conflict):
    """A writer that a commit names is not open in that set; `detail` has `writer`. Nothing was committed."""


class TransactionTooLarge(TooLarge):
    """The transaction holds as many receipts, offsets or delayed messages as it may, the set as many writers."""


class OwnersFull(Unavailable):
    """As many owners of staged sets are remembered as may be."""


class ConcurrentTransactions(Unavailable):
    """The last transaction of the producer is still being ended; try again in a moment."""
