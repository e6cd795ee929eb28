"""Transactions as administrators see them, and the requests for them. Perform a call with a client's `perform`."""

from __future__ import annotations

import msgspec

from goqueue.api.transactions import AbortIn, Transaction, TransactionListOut, TransactionOffset
from goqueue.base.decoders import from_json
from goqueue.client.calls import RestCall
from goqueue.client.errors import GoQueueClientError

__all__ = ["Transaction", "TransactionOffset", "abort", "transaction", "transactions"]


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
    body = msgspec.json.encode(AbortIn(transactional_id=transactional_id))
    return RestCall("POST", "/transactions/abort", lambda status, body: from_json(body, Transaction), body=body)


def _read(status: int, body: bytes) -> list[Transaction]:
    return from_json(body, TransactionListOut).transactions
