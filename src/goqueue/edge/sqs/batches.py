"""What the three batch operations have in common: their limits, and an answer for every entry."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final, Protocol

from goqueue.edge.sqs.errors import SqsError

ENTRIES_MAX: Final = 10
_ID: Final = re.compile(r"[a-zA-Z0-9_-]{1,80}")


class SqsBatchEntry(Protocol):
    @property
    def id(self) -> str: ...


def check_entries(entries: Sequence[SqsBatchEntry], kind: str) -> None:
    """As many as are allowed, each with an id of its own."""
    if not entries:
        raise SqsError("EmptyBatchRequest", f"There should be at least one {kind} in the request.")
    if len(entries) > ENTRIES_MAX:
        message = f"Maximum number of entries per request are {ENTRIES_MAX}. You have sent {len(entries)}."
        raise SqsError("TooManyEntriesInBatchRequest", message)
    seen: set[str] = set()
    for entry in entries:
        if not _ID.fullmatch(entry.id):
            raise SqsError(
                "InvalidBatchEntryId",
                "A batch entry id can only contain alphanumeric characters, hyphens and underscores. "
                "It can be at most 80 letters long.",
            )
        if entry.id in seen:
            raise SqsError("BatchEntryIdsNotDistinct", f"Id {entry.id} repeated.")
        seen.add(entry.id)


def failed(entry: SqsBatchEntry, error: SqsError) -> dict[str, Any]:
    fault = error.fault
    return {"Id": entry.id, "SenderFault": fault.is_senders, "Code": fault.code, "Message": error.message}


def summed(entries: Sequence[SqsBatchEntry], outcomes: Sequence[dict[str, Any] | SqsError]) -> dict[str, Any]:
    """The answer of a batch: who went through, and who did not; a list that is empty is left out."""
    pairs = list(zip(entries, outcomes, strict=True))
    answer = {
        "Successful": [{"Id": one.id, **outcome} for one, outcome in pairs if not isinstance(outcome, SqsError)],
        "Failed": [failed(one, outcome) for one, outcome in pairs if isinstance(outcome, SqsError)],
    }
    return {name: found for name, found in answer.items() if found}
