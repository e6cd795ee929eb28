"""The tables of `goqueue top`: rates between two samples, and what stands in the later one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple, TypeAlias

from goqueue.cli.show import size_text
from goqueue.cli.span_text import age_text
from goqueue.cli.top_sample import Labels, TopSample, summed

Cell: TypeAlias = str | float
TopRow: TypeAlias = tuple[Cell, ...]
Shown: TypeAlias = Callable[[float], str]


def _rate(value: float) -> str:
    return f"{value:,.0f}/s" if value >= 10 or value == 0 else f"{value:.1f}/s"


def _bytes_rate(value: float) -> str:
    return f"{size_text(int(value))}/s"


def _whole(value: float) -> str:
    return f"{value:,.0f}"


def _bytes(value: float) -> str:
    return size_text(int(value))


class TopColumn(NamedTuple):
    """A text, unless it has a way to show numbers."""

    title: str
    show: Shown | None = None


class TopView(NamedTuple):
    """One page. It begins sorted by `sort`, the largest first."""

    title: str
    columns: tuple[TopColumn, ...]
    rows: Callable[[TopSample, TopSample], list[TopRow]]
    sort: int


def _rates(now: TopSample, before: TopSample, name: str, places: slice = slice(None)) -> Callable[[Labels], float]:
    """What a counter or a position grew in a second. A restart begins at zero, which is no rate."""
    seconds = now.at - before.at
    later, earlier = summed(now.series[name], places), summed(before.series[name], places)

    def rate(key: Labels) -> float:
        if seconds <= 0 or key not in earlier:
            return 0.0
        return max(0.0, later.get(key, 0.0) - earlier[key]) / seconds

    return rate


def topic_rows(now: TopSample, before: TopSample) -> list[TopRow]:
    first = slice(0, 1)
    ends = summed(now.series["goqueue_broker_high_watermark"], first)
    starts = summed(now.series["goqueue_broker_start_offset"], first)
    sizes = summed(now.series["goqueue_storage_log_size_bytes"], first)
    messages = _rates(now, before, "goqueue_broker_high_watermark", first)
    written = _rates(now, before, "goqueue_broker_bytes_published_total")
    read = _rates(now, before, "goqueue_broker_bytes_fetched_total")
    return [
        (key[0], messages(key), written(key), read(key), ends[key] - starts.get(key, 0.0), sizes.get(key, 0.0))
        for key in ends
    ]


def group_rows(now: TopSample, before: TopSample) -> list[TopRow]:
    names = slice(0, 2)
    lags = summed(now.series["goqueue_consumer_lag"], names)
    ages = summed(now.series["goqueue_consumer_lag_seconds"], names, largest=True)
    rate = _rates(now, before, "goqueue_consumer_committed_offset", names)
    return [(*key, lags[key], ages.get(key, 0.0), rate(key)) for key in lags]


def queue_rows(now: TopSample, before: TopSample) -> list[TopRow]:
    held = [now.series[f"goqueue_queue_{name}"] for name in ("ready", "in_flight", "waiting", "oldest_seconds")]
    rate = _rates(now, before, "goqueue_queue_acked_total")
    return [(*key, *(one.get(key, 0.0) for one in held), rate(key)) for key in held[0]]


def lane_rows(now: TopSample, before: TopSample) -> list[TopRow]:
    held = [now.series[f"goqueue_lane_{name}"] for name in ("ready", "in_flight")]
    came, went = (_rates(now, before, f"goqueue_lane_{name}_total") for name in ("enqueued", "dequeued"))
    return [(*key, *(one.get(key, 0.0) for one in held), came(key), went(key)) for key in held[0]]


def shard_rows(now: TopSample, before: TopSample) -> list[TopRow]:
    rows: list[TopRow] = []
    for one in now.shards:
        behind = float(max((lag.messages for lag in one.lag.values()), default=0))
        leader = "-" if one.leader is None else f"node {one.leader}"
        held = ",".join(map(str, one.replicas)), ",".join(map(str, one.in_sync))
        rows.append((f"{one.shard:>3}", one.condition, leader, *held, float(one.partitions), behind))
    return rows


_NAMES: Final = (TopColumn("GROUP"), TopColumn("TOPIC"))
VIEWS: Final = (
    TopView(
        "topics",
        (
            TopColumn("TOPIC"),
            TopColumn("IN", _rate),
            TopColumn("BYTES IN", _bytes_rate),
            TopColumn("BYTES OUT", _bytes_rate),
            TopColumn("MESSAGES", _whole),
            TopColumn("SIZE", _bytes),
        ),
        topic_rows,
        1,
    ),
    TopView(
        "groups",
        (*_NAMES, TopColumn("LAG", _whole), TopColumn("BEHIND", age_text), TopColumn("COMMITS", _rate)),
        group_rows,
        2,
    ),
    TopView(
        "queues",
        (
            *_NAMES,
            TopColumn("READY", _whole),
            TopColumn("LEASED", _whole),
            TopColumn("RETRYING", _whole),
            TopColumn("OLDEST", age_text),
            TopColumn("ACKED", _rate),
        ),
        queue_rows,
        2,
    ),
    TopView(
        "lanes",
        (
            *_NAMES,
            TopColumn("LANE"),
            TopColumn("READY", _whole),
            TopColumn("LEASED", _whole),
            TopColumn("CAME", _rate),
            TopColumn("TAKEN", _rate),
        ),
        lane_rows,
        3,
    ),
    TopView(
        "shards",
        (
            TopColumn("SHARD"),
            TopColumn("CONDITION"),
            TopColumn("LEADER"),
            TopColumn("REPLICAS"),
            TopColumn("IN SYNC"),
            TopColumn("PARTITIONS", _whole),
            TopColumn("LAG", _whole),
        ),
        shard_rows,
        6,
    ),
)
