"""`goqueue bench`: load on a broker, and how long things take under it."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from typing import Any, Final

import click
import msgspec

from goqueue.api.node import Doors
from goqueue.base.errors import InvalidField
from goqueue.base.times import parse_duration_ms
from goqueue.cli.bench_compare import compare
from goqueue.cli.bench_doors import BenchClient, BenchKafka
from goqueue.cli.bench_load import HEAD_BYTES, Arrivals, LatencySummary, OpenLoop, make_payload, summarise
from goqueue.cli.connecting import BrokerTarget, connect, identity_for
from goqueue.cli.failures import Failed
from goqueue.cli.kafka_config import identity_options
from goqueue.cli.options import CommandGroup, F, output_option, server_option
from goqueue.cli.progress import progress_bar
from goqueue.cli.show import counted, remark, show_rows

_MESSAGES_MAX: Final = 10_000_000
_READY_S_MAX: Final = 60.0
_REST_S_MAX: Final = 60.0  # for what is still on its way when all is sent
_WORKERS: Final = 4
_SHOW_S: Final = 0.2
_OVER: Final = ("rest", "grpc", "kafka")


class BenchLoad(msgspec.Struct, frozen=True):
    """What to send. A request carries `batch` messages."""

    kind: str
    over: str
    rate: int
    seconds: float
    size: int
    batch: int
    in_flight: int

    @property
    def requests(self) -> int:
        return max(1, round(self.rate * self.seconds / self.batch))


class BenchResult(msgspec.Struct, frozen=True):
    """One line: what was timed, how many messages a second, and how long it took."""

    what: str
    messages_per_second: float
    latency_ms: LatencySummary


def _span(ctx: click.Context, param: click.Parameter, given: str) -> float:
    try:
        return parse_duration_ms(given, param.name or "") / 1000
    except InvalidField as error:
        raise click.BadParameter(error.message, ctx, param) from None


def _sized(over: Sequence[str]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """The options of a load, over one of these protocols."""

    def option(name: str, kind: click.IntRange, default: int, text: str) -> Callable[[F], F]:
        return click.option(name, type=kind, default=default, show_default=True, help=text)

    options: tuple[Callable[[Any], Any], ...] = (
        click.option("--over", type=click.Choice(over), default="rest", show_default=True, help="Which protocol."),
        option("--rate", click.IntRange(1), 1_000, "Messages a second."),
        click.option("--duration", default="10s", callback=_span, show_default=True, help="How long to send."),
        option("--size", click.IntRange(HEAD_BYTES, 1 << 20), 100, "Bytes of a message."),
        option("--batch", click.IntRange(1, 1_000), 1, "Messages of a request."),
        option("--in-flight", click.IntRange(1, 1_000), 64, "Requests at once, at most."),
        option("--partitions", click.IntRange(1, 1_000), 4, "Of the topic."),
        click.option("--keep", is_flag=True, help="Leave the topic there."),
        server_option,
        output_option,
    )

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        for one in reversed(options):
            command = one(command)
        return command

    return decorate


@click.group(cls=CommandGroup)
def bench() -> None:
    """Put load on a broker and time it.

    Messages leave by the clock, RATE a second, whether or not those before were answered, and each is timed from when
    it should have left: so a stall shows in the percentiles. Every answer and every message is checked; exit code 1 if
    one is missing, doubled or damaged. The topic is made for it and deleted again. `compare` runs other brokers beside
    GoQueue.
    """


@bench.command()
@_sized(_OVER)
def produce(**asked: Any) -> None:
    """Publish, and time the acknowledgement."""
    run_load("produce", **asked)


@bench.command()
@_sized(_OVER)
def consume(**asked: Any) -> None:
    """Publish and read, and time the acknowledgement and the way to a reader."""
    run_load("consume", **asked)


@bench.command()
@_sized(("rest", "grpc"))
def queue(**asked: Any) -> None:
    """Publish and work off, and time the acknowledgement and the way to a worker's ack."""
    run_load("queue", **asked)


bench.add_command(compare)


def run_load(
    kind: str,
    over: str,
    rate: int,
    duration: float,
    size: int,
    batch: int,
    in_flight: int,
    partitions: int,
    keep: bool,
    server: str,
    output: str,
) -> None:
    """Makes the topic, runs the load, shows what was found."""
    load = BenchLoad(kind, over, rate, duration, size, batch, in_flight)
    if load.requests * batch > _MESSAGES_MAX:
        raise click.UsageError(f"More than {_MESSAGES_MAX:,} messages; take a lower rate or a shorter duration.")
    topic = f"bench-{uuid.uuid4().hex[:12]}"
    with connect(server) as client:
        at = _address(client.doors(), over, server)
        client.create_topic(topic, partitions)
        try:
            results, faults = asyncio.run(_run(load, identity_for(server), at, topic))
        finally:
            if not keep:
                client.delete_topic(topic)
    _show(results, output)
    for fault in faults:
        remark(f"WRONG: {fault}")
    raise click.exceptions.Exit(1 if faults else 0)


def _address(doors: Doors, over: str, server: str) -> str:
    """Of the door that is meant."""
    if over == "rest":
        return server
    found = doors.kafka if over == "kafka" else doors.grpc
    if found is None:
        raise Failed(f"The broker's door for {over} is off.")
    scheme = "grpcs" if server.startswith("https://") else "grpc"
    return found if over == "kafka" else f"{scheme}://{found}"


async def _run(load: BenchLoad, who: BrokerTarget, at: str, topic: str) -> tuple[list[BenchResult], list[str]]:
    door = (
        BenchKafka(at, topic, load.in_flight, identity_options(who))
        if load.over == "kafka"
        else BenchClient(who._replace(server=at), topic, load.in_flight)
    )
    arrivals = Arrivals(load.requests * load.batch)
    await door.open()
    readers = _readers(load, door, arrivals)
    try:
        tasks = await _started(readers)
        sending = OpenLoop(load.rate / load.batch, load.requests, _sender(load, door))
        await _watched(sending, load)
        if tasks and not sending.failures:
            await _arrived(tasks, arrivals)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    finally:
        await door.close()
    return _results(load, sending, arrivals), _faults(load, sending, arrivals)


async def _watched(sending: OpenLoop, load: BenchLoad) -> None:
    """With a bar, for who watches."""
    with progress_bar("sending", load.requests * load.batch) as show:
        running = asyncio.create_task(sending.run())
        while not running.done():
            await asyncio.wait([running], timeout=_SHOW_S)
            show(len(sending.latencies) * load.batch)
        await running


def _sender(load: BenchLoad, door: BenchClient | BenchKafka) -> Callable[[int, int], Coroutine[Any, Any, None]]:
    async def send(number: int, due_ns: int) -> None:
        first = number * load.batch
        await door.publish([make_payload(first + one, due_ns, load.size) for one in range(load.batch)])

    return send


def _readers(
    load: BenchLoad, door: BenchClient | BenchKafka, arrivals: Arrivals
) -> list[tuple[asyncio.Event, Coroutine[Any, Any, None]]]:
    if load.kind == "produce":
        return []
    if load.kind == "queue" and isinstance(door, BenchClient):
        ready = [asyncio.Event() for _ in range(_WORKERS)]
        return [(one, door.work("bench", arrivals, one)) for one in ready]
    one = asyncio.Event()
    return [(one, door.follow(arrivals, one))]


async def _started(readers: list[tuple[asyncio.Event, Coroutine[Any, Any, None]]]) -> list[asyncio.Task[None]]:
    tasks = [asyncio.create_task(reader) for _, reader in readers]
    for event, _ in readers:
        await asyncio.wait_for(event.wait(), _READY_S_MAX)
    return tasks


async def _arrived(tasks: list[asyncio.Task[None]], arrivals: Arrivals) -> None:
    """Until all have come, a reader died, or it takes too long."""
    waiting = asyncio.create_task(arrivals.complete.wait())
    await asyncio.wait([waiting, *tasks], timeout=_REST_S_MAX, return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
    with suppress(asyncio.CancelledError):
        await waiting


def _results(load: BenchLoad, sending: OpenLoop, arrivals: Arrivals) -> list[BenchResult]:
    rate = len(sending.latencies) * load.batch / sending.seconds if sending.seconds else 0.0
    found = [BenchResult("acknowledged", rate, summarise(sending.latencies))]
    if load.kind != "produce":
        came = len(arrivals.latencies) / sending.seconds if sending.seconds else 0.0
        what = "acked by a worker" if load.kind == "queue" else "read"
        found.append(BenchResult(what, came, summarise(arrivals.latencies)))
    return found


def _faults(load: BenchLoad, sending: OpenLoop, arrivals: Arrivals) -> list[str]:
    found = []
    if sending.failures:
        found.append(f"{counted(len(sending.failures), 'request')} failed; the first: {sending.failures[0]}")
    if load.kind == "produce":
        return found
    if arrivals.damaged:
        found.append(f"{counted(arrivals.damaged, 'message')} came damaged")
    if arrivals.doubled:
        found.append(f"{counted(arrivals.doubled, 'message')} came twice")
    if arrivals.missing:
        found.append(f"{counted(arrivals.missing, 'message')} did not come")
    return found


def _show(results: list[BenchResult], output: str) -> None:
    columns = ("WHAT", "COUNT", "RATE", "P50", "P90", "P99", "P99.9", "MAX")
    rows = []
    for one in results:
        times = one.latency_ms
        shown = (f"{each:,.1f} ms" for each in (times.p50, times.p90, times.p99, times.p999, times.max))
        rows.append((one.what, times.count, f"{one.messages_per_second:,.0f}/s", *shown))
    show_rows(output, results, columns, rows)
