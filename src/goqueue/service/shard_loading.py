"""The coordinators of one shard come and go with its leadership: groups, queue views, schedule, transactions, in order.

What is given up is thrown away and made anew: the next time it is loaded from the log, which another node wrote on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import NamedTuple

from goqueue.base.errors import GoQueueError, LeaderChanged
from goqueue.base.ids import Millis
from goqueue.drive.clock_watch import Timekeeper
from goqueue.drive.coordinators import GROUPS_TOPIC, TRANSACTIONS_TOPIC, GroupHost
from goqueue.drive.delivery_runner import DELIVERIES_TOPIC, DeliveryRunner
from goqueue.drive.partition import Partition
from goqueue.drive.per_shard import PerShard
from goqueue.drive.schedule_log import SCHEDULE_TOPIC
from goqueue.drive.schedules import Schedules
from goqueue.drive.txn_coordinators import TransactionCoordinators


class ShardBooks(NamedTuple):
    """What keeps something durable, one of each for every shard."""

    groups: PerShard[GroupHost]
    views: PerShard[DeliveryRunner]
    schedules: Schedules
    transactions: TransactionCoordinators


class ShardClocks:
    """The deadlines of a node's shards."""

    def __init__(self, books: ShardBooks, partitions: Callable[[], Iterable[Partition]]) -> None:
        self._books = books
        self._partitions = partitions

    def _hosts(self) -> Iterator[Timekeeper]:
        yield from self._books.groups
        yield from (runner.host for runner in self._books.views)
        yield from (one.host for one in self._books.transactions)

    def look_again(self) -> None:
        for host in self._hosts():
            host.look_again()

    def clock_moved(self, by_ms: Millis) -> None:
        """Producers are remembered for as long as they would have been."""
        for host in self._hosts():
            host.clock_moved(by_ms)
        for partition in self._partitions():
            partition.producers.shift(by_ms)


class ShardLoading:
    """A `ShardCoordinators`."""

    def __init__(
        self,
        books: ShardBooks,
        internal: Callable[[str, int], Awaitable[Partition]],
        recover: Callable[[int], Awaitable[None]],
        forget: Callable[[int], None],
        check: Callable[[int], Awaitable[None]],
        skew_ms: Millis,
    ) -> None:
        """`internal` is a shard's partition of an internal topic; `recover` finishes what its last leader left;
        `forget` drops what is remembered of the shard's partitions; `check` says whether its logs can be trusted.
        Deadlines are by the clock of who led before, which may be behind by `skew_ms`."""
        self._books = books
        self._internal = internal
        self._recover = recover
        self._forget = forget
        self._check = check
        self._skew_ms = skew_ms

    async def load(self, shard: int) -> None:
        groups, views, schedules, transactions = self._books
        await self._check(shard)
        self._forget(shard)
        await groups[shard].load(await self._internal(GROUPS_TOPIC, shard))
        groups[shard].shift(self._skew_ms)
        await views[shard].load(await self._internal(DELIVERIES_TOPIC, shard))
        views[shard].host.shift(self._skew_ms)
        await schedules.start(shard, await self._internal(SCHEDULE_TOPIC, shard))
        await transactions.load(shard, await self._internal(TRANSACTIONS_TOPIC, shard))
        await self._recover(shard)
        views[shard].resume()

    def unload(self, shard: int) -> Awaitable[None]:
        groups, views, schedules, transactions = self._books
        gone = LeaderChanged(f"Another node leads shard {shard} now; this may have been done or not.")
        groups[shard].unload(gone)
        views[shard].host.unload(gone)
        transactions.unload(shard, gone)
        schedules.unload(shard, gone)
        stops = [groups.renew(shard).stop(), views.renew(shard).stop()]
        return _all([*stops, transactions.renew(shard).stop(), schedules.renew(shard).stop()])


async def _all(stops: Iterable[Awaitable[None]]) -> None:
    """Whatever one of them cannot finish is finished by the shard's next leader."""
    for stop in stops:
        try:
            await stop
        except (GoQueueError, asyncio.CancelledError):
            continue
