"""SQS by boto3, the same client for everybody who speaks it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from bench.compare.bodies import Ledger, body, number_of
from bench.compare.model import CheckFailed, Running, Sample, Turn
from bench.report import percentile

_PROBES = 100
_DELAY_S = 3
_LONG_S = 900
_TRIPS = 200


def client_of(running: Running) -> Any:
    import boto3

    named = {"aws_access_key_id": "x", "aws_secret_access_key": "x", "region_name": "us-east-1"}
    return boto3.client("sqs", endpoint_url=running.sqs, **named)


def round_trips(running: Running, turn: Turn) -> Sample:
    """One after the other: send, receive, delete."""
    client = client_of(running)
    url = client.create_queue(QueueName=f"trips-{turn.number}")["QueueUrl"]
    ledger = Ledger(0, _TRIPS)
    began = time.perf_counter()
    for number in range(_TRIPS):
        client.send_message(QueueUrl=url, MessageBody=body(number).decode())
        found = client.receive_message(QueueUrl=url, WaitTimeSeconds=5).get("Messages", [])
        ledger.note(number_of(one["Body"]) for one in found)
        for one in found:
            client.delete_message(QueueUrl=url, ReceiptHandle=one["ReceiptHandle"])
    spent = time.perf_counter() - began
    ledger.close()
    return {"sqs": _TRIPS / spent}


def delays(running: Running, turn: Turn) -> Sample:
    """How late messages come that were delayed by seconds, beside many that wait for a quarter of an hour.

    Those are sent in the round that does not count, and wait through all others.
    """
    client = client_of(running)
    url = client.create_queue(QueueName="delays")["QueueUrl"]
    if turn.number == 0:
        for first in range(0, turn.effort.pending, 10):
            _send(client, url, [(first + one, _LONG_S) for one in range(10)])
    due: dict[int, float] = {}
    for number in range(_PROBES):
        due[number] = time.perf_counter() + _DELAY_S
        client.send_message(QueueUrl=url, MessageBody=body(number).decode(), DelaySeconds=_DELAY_S)
    ledger = Ledger(0, _PROBES)
    late = sorted((at - due[number]) * 1000 for number, at in _receive(client, url, ledger))
    if late[0] < 0:
        raise CheckFailed(f"a message came {-late[0]:.0f} ms early")
    return {"late-p50": percentile(late, 0.5), "late-p99": percentile(late, 0.99)}


def _send(client: Any, url: str, messages: list[tuple[int, int]]) -> None:
    entries = [
        {"Id": str(number), "MessageBody": body(number).decode(), "DelaySeconds": delay} for number, delay in messages
    ]
    if client.send_message_batch(QueueUrl=url, Entries=entries).get("Failed"):
        raise CheckFailed("a delayed message was refused")


def _receive(client: Any, url: str, ledger: Ledger) -> Iterator[tuple[int, float]]:
    until = time.monotonic() + 60
    while not ledger.is_whole and time.monotonic() < until:
        found = client.receive_message(QueueUrl=url, WaitTimeSeconds=2, MaxNumberOfMessages=10).get("Messages", [])
        now = time.perf_counter()
        for one in found:
            number = number_of(one["Body"])
            ledger.note([number])
            client.delete_message(QueueUrl=url, ReceiptHandle=one["ReceiptHandle"])
            yield number, now
    ledger.close()
