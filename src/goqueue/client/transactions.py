"""Transactions as administrators see them, and the requests for them. Perform a call with a client's `perform`."""

from __future__ import annotations

import msgspec

from goqueue.client.calls import RestCall
from goqueue.client.errors import GoQueueClientError
from goqueue.client.replies import TopicParts


class TransactionOffset(msgspec.Struct, frozen=True):
    """Where the transaction moves a group when it commits."""

    group: str
    topic: str
    partition: int
    offset: int


class Transaction(msgspec.Struct, frozen=True):
    """A transactional producer and its transaction. `started` is None where none is open."""

    transactional_id: str
    producer_id: int
    epoch: int
    state: str
    timeout_ms: int
    session_timeout_ms: int = 0
    started: int | None = None
    open_ms: int | None = None
    partitions: list[TopicParts] = []
    offsets: list[TransactionOffset] = []
    receipts: int = 0
    delayed: int = 0


class _Listed(msgspec.Struct):
    transactions: list[Transaction]


def transactions(*, idle: bool = False, limit: int = 100) -> RestCall[list[Transaction]]:
    """Open transactions; with `idle` also producers without one."""
    query = {"state": "all" if idle else "open", "limit": str(limit)}
    return RestCall("GET", "/transactions", _read, query)


def transaction(transactional_id: str) -> RestCall[Transaction]:
    """One, by any id: in a path some would need escaping."""

    def read(status: int, body: bytes) -> Transaction:
        found = _read(status, body)
        if not found:
            message = f"No producer has the transactional id {transactional_id!r}."
            raise GoQueueClientError("unknown-transaction", message, "transactional_id", 404)
        return found[0]

    return RestCall("GET", "/transactions", read, {"state": "all", "transactional_id": transactional_id})


def abort(transactional_id: str) -> RestCall[Transaction]:
    """Ends an open transaction; its producer is shut out."""
    body = msgspec.json.encode({"transactional_id": transactional_id})
    return RestCall(
        "POST", "/transactions/abort", lambda status, body: msgspec.json.decode(body, type=Transaction), body=body
    )


def _read(status: int, body: bytes) -> list[Transaction]:
    return msgspec.json.decode(body, type=_Listed).transactions
