"""A Kafka connection that does not show who it is does not stay."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

from goqueue.edge.kafka import sasl
from goqueue.edge.kafka.calls import KafkaPeer
from goqueue.edge.kafka.connection import KafkaConnection
from goqueue.edge.kafka.sasl import KafkaLogin
from goqueue.service.authentication import Authentication


class _Connection:
    def __init__(self) -> None:
        self.dropped = asyncio.get_running_loop().create_future()

    def drop(self, why: str) -> None:
        self.dropped.set_result(why)


@pytest.mark.asyncio
async def test_who_does_not_log_in_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sasl, "LOGIN_SECONDS", 0.01)
    connection = _Connection()
    KafkaLogin(cast(Authentication, None), KafkaPeer("here"), cast(KafkaConnection, connection))
    assert await asyncio.wait_for(connection.dropped, 20) == "login"
