"""Clients of a FIFO queue over SQS: sends that are repeated until they are acknowledged, and receivers."""

from __future__ import annotations

import time
from collections import defaultdict
from typing import Any, Final

from chaos.clients import LEASE_S, PAUSE_S, SqsClient
from chaos.histories import Groups, Leases
from tests.cluster.clients import Cluster

GROUPS: Final = 4


class FifoSender(SqsClient):
    """A message is sent under one deduplication id until it is acknowledged; then comes the next of its group."""

    def __init__(self, cluster: Cluster, seed: int, queue: str) -> None:
        super().__init__(cluster, seed, queue)
        self.acked: set[str] = set()
        self._next = dict.fromkeys((f"g{number}" for number in range(GROUPS)), 0)

    def work(self) -> None:
        group = self.chance.choice(sorted(self._next))
        name = f"{group}/{self._next[group]}"
        began = time.monotonic()
        asked = {"MessageBody": name, "MessageGroupId": group, "MessageDeduplicationId": name}
        is_stored = self.ask("send_message", **asked) is not None
        self.ops.note(began, is_stored)
        if is_stored:
            self.acked.add(name)
            self._next[group] += 1
        self.stopping.wait(PAUSE_S)


class FifoReceiver(SqsClient):
    """A group whose messages one receiver has is closed to all others."""

    def __init__(self, cluster: Cluster, seed: int, queue: str, leases: Leases, groups: Groups) -> None:
        super().__init__(cluster, seed, queue)
        self._leases = leases  # of groups: each receive is an owner
        self._groups = groups
        self._name = f"r{seed}"
        self._count = 0
        self.seen: set[str] = set()

    def work(self) -> None:
        asked = time.monotonic()
        found = self.ask("receive_message", MaxNumberOfMessages=5, WaitTimeSeconds=1, VisibilityTimeout=LEASE_S)
        got = time.monotonic()
        batches: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
        for one in (found or {}).get("Messages", []):
            group, _, number = one["Body"].partition("/")
            self._groups.saw(group, int(number), one["MessageId"])
            self.seen.add(one["Body"])
            batches[group].append(one)
        for group, messages in batches.items():
            self._count += 1
            owner = f"{self._name}-{self._count}"
            self._leases.leased(group, owner, asked, got, LEASE_S)
            self._delete(messages, owner)

    def _delete(self, messages: list[dict[str, Any]], owner: str) -> None:
        """With the first of these the group may be open again: nobody says what came of one that failed."""
        self.stopping.wait(self.chance.uniform(0, 0.1))
        self._leases.given_back(owner, time.monotonic())
        for one in messages:
            self.ask("delete_message", ReceiptHandle=one["ReceiptHandle"])
