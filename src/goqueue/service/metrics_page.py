"""The page of `/metrics`: numbers that only the loop may read are taken there, the text is made off it.

Both in slices: timers and other requests come in between, however many topics there are.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, NamedTuple, TypeAlias

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import Metric
from prometheus_client.openmetrics import exposition as openmetrics
from prometheus_client.registry import Collector

from goqueue.drive.offload import Offload
from goqueue.drive.slices import in_slices
from goqueue.service.metric_series import SeriesFamily

PLAIN: Final = "text/plain; version=0.0.4; charset=utf-8"
OPENMETRICS: Final = "application/openmetrics-text; version=1.0.0; charset=utf-8"
_EOF: Final = b"# EOF\n"
_KEPT_S: Final = 1.0


Look: TypeAlias = Callable[[], Iterator[None] | None]  # what takes long stops now and then, for others to run


class MetricsText(NamedTuple):
    """A page and its media type."""

    text: bytes
    media_type: str


class MetricsPage:
    """The rendered text, at most a second old."""

    def __init__(
        self,
        registry: CollectorRegistry,
        offload: Offload,
        looks: Sequence[Look] = (),
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._registry = registry
        self._offload = offload
        self._looks = looks
        self._monotonic = monotonic
        self._looked = float("-inf")
        self._looking = asyncio.Lock()
        self._one_at_a_time = threading.Lock()  # collectors keep what they told last
        self._known: dict[str, tuple[float, bytes]] = {}

    async def text(self, accept: str = "") -> MetricsText:
        """With exemplars, for who asks for OpenMetrics."""
        await self._look()
        return await self._offload(lambda: self._render(accept))

    async def families(self) -> list[Metric]:
        """The same numbers, for who writes them in another form."""
        await self._look()
        return await self._offload(self._collect)

    @staticmethod
    def media_type(accept: str) -> str:
        return OPENMETRICS if _asks_for_openmetrics(accept) else PLAIN

    async def _look(self) -> None:
        """Takes the numbers that only the loop may read."""
        async with self._looking:
            now = self._monotonic()
            if now - self._looked >= _KEPT_S:
                for look in self._looks:
                    for _ in look() or ():
                        await asyncio.sleep(0)
                self._looked = now

    def _collect(self) -> list[Metric]:
        with self._one_at_a_time:
            return list(in_slices(self._registry.collect()))

    def _render(self, accept: str) -> MetricsText:
        """Blocks, so it runs off the loop."""
        media_type = self.media_type(accept)
        with self._one_at_a_time:
            looked, text = self._known.get(media_type, (float("-inf"), b""))
            if looked != self._looked:
                looked, text = self._looked, _text(self._registry, media_type == OPENMETRICS)
                self._known[media_type] = looked, text
        return MetricsText(text, media_type)


def _asks_for_openmetrics(accept: str) -> bool:
    return any(one.partition(";")[0].strip() == "application/openmetrics-text" for one in accept.split(","))


class _One(Collector):
    """A family that the library writes."""

    def __init__(self, family: Metric) -> None:
        self._family = family

    def collect(self) -> Iterable[Metric]:
        return (self._family,)


def _text(registry: CollectorRegistry, is_openmetrics: bool) -> bytes:
    written = (_family_text(one, is_openmetrics) for one in registry.collect())
    return b"".join(in_slices(written)) + (_EOF if is_openmetrics else b"")


def _family_text(family: Metric, is_openmetrics: bool) -> bytes:
    if isinstance(family, SeriesFamily):
        return (_head(family, is_openmetrics) + family.lines()).encode()
    if not is_openmetrics:
        return generate_latest(_One(family))
    told: bytes = openmetrics.generate_latest(_One(family))  # type: ignore[no-untyped-call]
    return told.removesuffix(_EOF)


def _head(family: SeriesFamily, is_openmetrics: bool) -> str:
    name = family.name if is_openmetrics else family.sample_name
    text = family.documentation.replace("\\", r"\\").replace("\n", r"\n")
    return f"# HELP {name} {text}\n# TYPE {name} {family.type}\n"
