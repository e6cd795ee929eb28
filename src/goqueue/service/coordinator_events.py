"""Who hears what the hosts of coordinators do: one sink for each."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from goqueue.base.ids import Millis
from goqueue.core.groups.coordinator import Coordinator
from goqueue.core.groups.records import Record as GroupRecord
from goqueue.core.schemas.records import Record as SchemaRecord
from goqueue.core.schemas.registry import Registry
from goqueue.drive.host_parts import Sink


class SchemaEvents(Sink[Registry, SchemaRecord]):
    """The registry is another one, or changed."""

    def __init__(self, on_change: Callable[[Registry], None]) -> None:
        self._on_change = on_change

    def loaded(self, machine: Registry) -> None:
        self._on_change(machine)

    def written(self, machine: Registry, records: Sequence[SchemaRecord], now: Millis) -> None:
        self._on_change(machine)


class GroupEvents(Sink[Coordinator, GroupRecord]):
    """What groups write moves queue views and ends members' polls; `wait` returns when that is durable."""

    def __init__(
        self,
        on_loaded: Callable[[], None],
        on_written: Callable[[Sequence[GroupRecord]], None],
        wait: Callable[[Sequence[GroupRecord]], Awaitable[None]],
    ) -> None:
        self._on_loaded = on_loaded
        self._on_written = on_written
        self._wait = wait

    def loaded(self, machine: Coordinator) -> None:
        self._on_loaded()

    def written(self, machine: Coordinator, records: Sequence[GroupRecord], now: Millis) -> None:
        self._on_written(records)

    async def wait_elsewhere(self, records: Sequence[GroupRecord]) -> None:
        await self._wait(records)
