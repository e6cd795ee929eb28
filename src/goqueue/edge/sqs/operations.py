"""Every operation of SQS, the type of its request and who answers it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from goqueue.edge.sqs import schema
from goqueue.edge.sqs.calls import Handler


class SqsOperation(msgspec.Struct, frozen=True):
    """One operation: its name is the name of its request's type."""

    name: str
    kind: type[schema.SqsRequest]
    decoder: msgspec.json.Decoder[Any]
    handler: Handler


def operations(*handlers: Mapping[type[schema.SqsRequest], Handler]) -> dict[str, SqsOperation]:
    """The table, by name."""
    return {
        kind.__name__: SqsOperation(kind.__name__, kind, msgspec.json.Decoder(kind), handler)
        for table in handlers
        for kind, handler in table.items()
    }
