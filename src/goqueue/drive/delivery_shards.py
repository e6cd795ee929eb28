"""All queue views of a node. Each is with the runner of its partition's shard."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence

from goqueue.base.ids import TopicPartition
from goqueue.core.delivery.machine import Delivery
from goqueue.core.delivery.records import Record, ViewId
from goqueue.drive.delivery_runner import DeliveryEvents, DeliveryRunner
from goqueue.drive.per_shard import PerShard


class DeliveryShards:
    """Asks of a shard whose views are not loaded raise; the others go on."""

    def __init__(self, runners: PerShard[DeliveryRunner], events: DeliveryEvents) -> None:
        self._runners = runners
        self.ready, self.moved = events.ready, events.moved

    # --- views ---------------------------------------------------------------------------------------------

    def find(self, view: ViewId) -> Delivery | None:
        return self._runners.at(view.at).views.get(view)

    def view(self, view: ViewId) -> Delivery:
        """The view; a new one is known once something of it is written."""
        return self._runners.at(view.at).view(view)

    def at(self, at: TopicPartition) -> Iterator[Delivery]:
        """Every group's view of one partition."""
        return self._runners.at(at).at(at)

    def of(self, group: str) -> list[Delivery]:
        return [delivery for runner in self._runners for delivery in runner.of(group)]

    def all(self) -> list[Delivery]:
        return [delivery for runner in self._runners for delivery in runner.views.values()]

    def loaded(self) -> list[Delivery]:
        """Those that can be asked now."""
        return [delivery for runner in self._runners if runner.is_loaded for delivery in runner.views.values()]

    def leads(self, at: TopicPartition) -> bool:
        """Whether the partition's views are here."""
        return self._runners.leads(at)

    def is_loaded(self, at: TopicPartition) -> bool:
        """Whether the views of a partition can be asked."""
        return self._runners.at(at).is_loaded

    def knows(self, view: ViewId) -> bool:
        """Whether there is such a view, as far as can be told."""
        return self._runners.at(view.at).knows(view)

    def is_current(self, delivery: Delivery) -> bool:
        """False if the view was forgotten, or loaded again."""
        return self._runners.at(delivery.view.at).is_current(delivery)

    # --- writing -------------------------------------------------------------------------------------------

    def write(self, delivery: Delivery, records: Sequence[Record]) -> None:
        """Appends and applies what a view decided; durable after `wait_durable`. Refused, it changes nothing."""
        if records:
            self._runners.at(delivery.view.at).write(delivery, records)

    def confirm(self, places: Iterable[TopicPartition]) -> None:
        """For who was told what is known of these: once this is durable, nobody else led when it was asked. A node that
        is alone need not ask."""
        if not self._runners.is_whole:
            for at in places:
                self._runners.at(at).confirm(at)

    def forget(self, chosen: Callable[[ViewId], bool]) -> None:
        """The group or the topic is gone."""
        for runner in self._runners:
            runner.forget(chosen)

    async def wait_durable(self, places: Iterable[TopicPartition] | None = None) -> None:
        """Of the views of these partitions, or of all."""
        chosen = self._runners if places is None else {self._runners.at(at) for at in places}
        behind = [runner for runner in chosen if not runner.host.is_durable]
        if len(behind) > 1:
            await asyncio.gather(*(runner.wait_durable() for runner in behind))
        elif behind:
            await behind[0].wait_durable()
