"""Which topics have typed tables right now, as the driver knows it. The registry is asked again for every batch."""

from __future__ import annotations

from collections.abc import Sequence

from deltalake import DeltaTable

from goqueue.client import schemas as calls
from goqueue.pipeline.lake.asking import ask
from goqueue.pipeline.lake.errors import CannotGrow
from goqueue.pipeline.lake.folders import location
from goqueue.pipeline.lake.tables import ensure_table
from goqueue.pipeline.lake.typed import PARTITION_BY, TypedPlan
from goqueue.pipeline.source.errors import Untyped
from goqueue.pipeline.source.typed import typed_values


def typed_path(lake: str, topic: str) -> str:
    return f"{lake.rstrip('/')}/typed/{topic}"


class TypedTables:
    """The plans and tables of the topics that have a schema. A topic whose table cannot go on is warned of."""

    def __init__(self, lake: str, url: str, topics: Sequence[str]) -> None:
        self._lake = lake
        self._url = url
        self._topics = tuple(topics)
        self._ids: dict[str, int] = {}
        self._plans: dict[str, TypedPlan] = {}
        self._tables: dict[str, DeltaTable] = {}
        self.warnings: dict[str, str] = {}

    @property
    def plans(self) -> dict[str, TypedPlan]:
        return self._plans

    @property
    def tables(self) -> dict[str, DeltaTable]:
        return self._tables

    def refresh(self) -> None:
        """Takes up schemas and versions that were registered since; one request where there are none."""
        latest = self._latest() if self._topics else {}
        for topic in self._topics:
            number = latest.get(f"{topic}-value", latest.get(topic))
            if number is not None and self._ids.get(topic) != number:
                self._ids[topic] = number
                self._plan(topic)
        for table in self._tables.values():
            table.update_incremental()

    def plan_of(self, topic: str) -> TypedPlan:
        """`Untyped` if the topic's values have no columns."""
        return TypedPlan(topic, location(typed_path(self._lake, topic)), typed_values(self._url, [topic]))

    def forget(self, topic: str) -> None:
        """Its table was made anew; the next refresh finds it as it is."""
        self._ids.pop(topic, None)

    def _latest(self) -> dict[str, int]:
        found = ask(self._url, calls.schemas())
        return {one.subject: one.id for one in found if one.subject is not None and one.id is not None}

    def _plan(self, topic: str) -> None:
        self._plans.pop(topic, None)
        self._tables.pop(topic, None)
        try:
            plan = self.plan_of(topic)
            self._tables[topic] = ensure_table(plan.table, plan.columns, PARTITION_BY)
            self._plans[topic] = plan
        except Untyped as error:
            self.warnings[topic] = f"{topic} gets no typed table: {error}"
        except CannotGrow as error:
            self.warnings[topic] = (
                f"{topic} goes on without its typed table: {error} Or make it anew with retype={topic}."
            )
