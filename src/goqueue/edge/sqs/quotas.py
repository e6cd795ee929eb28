"""Quotas at SQS's door: who is over one is told `RequestThrottled`."""

from __future__ import annotations

from typing import Any

import msgspec

from goqueue.base.quotas import BYTES_IN, BYTES_OUT
from goqueue.edge.sqs.calls import Handler, Reply, SqsCall
from goqueue.edge.sqs.operations import SqsOperation
from goqueue.service.quotas import ClientQuotas


def limited(operation: SqsOperation, quotas: ClientQuotas) -> SqsOperation:
    """The operation, counted where there are quotas."""
    return msgspec.structs.replace(operation, handler=_counted(operation.handler, quotas))


def _counted(handler: Handler, quotas: ClientQuotas) -> Handler:
    async def serve(asked: Any, call: SqsCall) -> Reply:
        if not quotas.is_set:
            return await handler(asked, call)
        quotas.admit(call.caller)
        quotas.charge(call.caller, "", BYTES_IN, call.body_bytes)
        reply = await handler(asked, call)
        quotas.charge(call.caller, "", BYTES_OUT, 0 if reply is None else len(msgspec.json.encode(reply)))
        return reply

    return serve
