"""Numbers of all processes of a machine, as one page: whichever is asked asks the others.

Series get the label `process`, so that a counter is that of one process whoever answers. Who does not answer soon is
left out, and `goqueue_process_up` says so.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Final, cast

import msgspec

from goqueue.base.errors import GoQueueError
from goqueue.core.cluster.image import Image
from goqueue.drive.offload import Offload
from goqueue.log.stats import StorageStats
from goqueue.service.health import Health, ProcessShare, Stats
from goqueue.service.metrics_page import MetricsPage, MetricsText
from goqueue.service.router import Router

_ASK_S: Final = 2.0
_UP: Final = "goqueue_process_up"
_EOF: Final = "# EOF"


class ProcessNumbers:
    """Of one process, for the one that was asked."""

    def __init__(self, health: Health, page: MetricsPage) -> None:
        self._health = health
        self._page = page

    async def stats(self) -> Stats:
        return self._health.stats()

    async def metrics(self, accept: str) -> bytes:
        return (await self._page.text(accept)).text


class AllProcesses:
    """`stats` and `text` as those of `Health` and `MetricsPage`, put together."""

    def __init__(self, router: Router, image: Image, own: ProcessNumbers, offload: Offload) -> None:
        self._router = router
        self._image = image
        self._offload = offload
        router.serve(own, ("stats", "metrics"))

    async def stats(self) -> Stats:
        found = await self._ask("stats")
        return _summed(self._router.shards.node, cast("Mapping[int, Stats]", found))

    async def text(self, accept: str = "") -> MetricsText:
        found = cast("Mapping[int, bytes]", await self._ask("metrics", accept))
        media_type, nodes = MetricsPage.media_type(accept), {*self._image.members(), *found}
        text = await self._offload(lambda: merged(found, sorted(nodes)))
        return MetricsText(text, media_type)

    async def _ask(self, verb: str, *args: str) -> Mapping[int, object]:
        nodes = sorted({self._router.shards.node, *self._router.shards.nodes()})
        asked = [self._router.ask(node, ProcessNumbers, verb, args, {}, _ASK_S) for node in nodes]
        answers = await asyncio.gather(*asked, return_exceptions=True)
        return {node: one for node, one in zip(nodes, answers, strict=True) if not _is_error(one)}


def _is_error(answer: object) -> bool:
    if isinstance(answer, BaseException) and not isinstance(answer, GoQueueError):
        raise answer
    return isinstance(answer, GoQueueError)


def _summed(here: int, parts: Mapping[int, Stats]) -> Stats:
    """Messages, bytes and what was counted are added up; the rest is as the process that was asked has it."""
    fields = msgspec.structs.fields(StorageStats)
    storage = StorageStats(
        **{one.name: sum(getattr(part.storage, one.name) for part in parts.values()) for one in fields}
    )
    return msgspec.structs.replace(
        parts[here],
        messages=sum(one.messages for one in parts.values()),
        size_bytes=sum(one.size_bytes for one in parts.values()),
        storage=storage,
        processes={node: ProcessShare(one.uptime_ms, one.messages, one.size_bytes) for node, one in parts.items()},
    )


# --- pages of text ----------------------------------------------------------------------------------------------


def merged(pages: Mapping[int, bytes], nodes: Iterable[int]) -> bytes:
    """Families stay together, as both formats ask for. `nodes` are all that there should be."""
    heads: dict[str, list[str]] = {}
    samples: dict[str, list[str]] = {}
    is_openmetrics = False
    for node, page in pages.items():
        family = ""
        for line in page.decode().split("\n"):  # a group's name may hold whatever else ends a line
            if line == _EOF:
                is_openmetrics = True
            elif line.startswith("# "):
                family = line.split(" ", 3)[2]
                known = heads.setdefault(family, [])
                if line not in known:
                    known.append(line)
            elif line:
                samples.setdefault(family, []).append(labelled(line, node))
    heads[_UP] = [f"# HELP {_UP} 1 if the process of this number answers.", f"# TYPE {_UP} gauge"]
    samples[_UP] = [f'{_UP}{{process="{node}"}} {int(node in pages)}' for node in nodes]
    lines = [line for family in heads for line in (*heads[family], *samples.get(family, ()))]
    return "\n".join([*lines, *([_EOF] if is_openmetrics else []), ""]).encode()


def labelled(line: str, node: int) -> str:
    """A sample with the label of its process, before its other ones."""
    name, brace, rest = line.partition("{")
    if not brace or " " in name:
        name, _, rest = line.partition(" ")
        return f'{name}{{process="{node}"}} {rest}'
    comma = "" if rest.startswith("}") else ","
    return f'{name}{{process="{node}"{comma}{rest}'
