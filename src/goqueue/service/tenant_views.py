"""The part of what concerns a whole node that somebody of a tenant is shown: its own traces, its own metrics."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator, Sequence
from typing import Final

from msgspec.structs import replace

from goqueue.base.access import CLUSTER, Access, AclOperation, AclResource, ResourceKind
from goqueue.base.commands import Caller
from goqueue.base.errors import UnknownTrace
from goqueue.core.traces.span import Span, TraceFilter, TraceSummary, trace_of
from goqueue.service.metrics_page import MetricsPage, MetricsText
from goqueue.service.tenant_names import TenantNames
from goqueue.service.traces import Traces, TraceStats

_KINDS: Final = {"topic": ResourceKind.TOPIC, "group": ResourceKind.GROUP}
_LABEL: Final = re.compile(r'\b(topic|group)="((?:[^"\\]|\\.)*)"')


class _Seen:
    """What the rules let one caller see."""

    def __init__(self, access: Access, caller: Caller) -> None:
        self._access = access
        self._caller = caller

    def has(self, kind: str, name: str) -> bool:
        return self._access.allows(self._caller, AclOperation.DESCRIBE, AclResource(_KINDS[kind], name))


class TenantTraces:
    """Events in topics of the tenant. Others of the same trace are not there."""

    def __init__(self, traces: Traces, access: Access, caller: Caller) -> None:
        self._traces = traces
        self._access = access
        self._caller = caller
        self._seen = _Seen(access, caller)
        self._inward = TenantNames(caller.tenant, is_inward=True)
        self._outward = TenantNames(caller.tenant, is_inward=False)

    async def newest(self, limit: int) -> list[TraceSummary]:
        return await self.search(TraceFilter(), limit)

    async def search(self, chosen: TraceFilter, limit: int) -> list[TraceSummary]:
        wanted = replace(self._inward.anything(chosen), tenant=self._caller.tenant)
        found = await self._traces.search(wanted, limit)
        return [trace_of(one.trace_id, spans) for one in found if (spans := self._own(one.spans))]

    async def show(self, trace_id: str) -> TraceSummary:
        spans = self._own((await self._traces.show(trace_id)).spans)
        if not spans:
            raise UnknownTrace(f"No trace {trace_id!r} is known; old ones are forgotten.", field="id")
        return trace_of(trace_id, spans)

    async def stats(self) -> TraceStats:
        """Those are the node's."""
        self._access.admit(self._caller, AclOperation.DESCRIBE, CLUSTER)
        return await self._traces.stats()

    def _own(self, spans: Sequence[Span]) -> list[Span]:
        own = [one for one in spans if self._seen.has("topic", one.topic)]
        return [self._outward.anything(one) for one in own]


class TenantMetrics:
    """Series of topics and groups of the tenant."""

    def __init__(self, page: MetricsPage, access: Access, caller: Caller) -> None:
        self._page = page
        self._prefix = f"{caller.tenant}~"
        self._seen = _Seen(access, caller)

    async def text(self, accept: str = "") -> MetricsText:
        found = await self._page.text(accept)
        own = await asyncio.to_thread(lambda: "".join(self._lines(found.text.decode())).encode())
        return MetricsText(own, found.media_type)

    def _lines(self, text: str) -> Iterator[str]:
        head: list[str] = []  # of a family, told with its first series
        for line in text.split("\n"):  # a group's name may hold whatever else ends a line
            if line == "# EOF":
                yield f"{line}\n"
            elif line.startswith("#"):
                head = [*head, line] if head and _family(line) == _family(head[0]) else [line]
            elif shown := self._shown(line):
                yield from (f"{one}\n" for one in (*head, shown))
                head = []

    def _shown(self, line: str) -> str:
        """As the tenant reads it, or nothing."""
        if self._prefix not in line:
            return ""
        labels = _LABEL.findall(line)
        if not labels or not all(self._seen.has(kind, name) for kind, name in labels):
            return ""
        return line.replace(f'="{self._prefix}', '="')


def _family(line: str) -> str:
    return line.split(" ", 3)[2]
