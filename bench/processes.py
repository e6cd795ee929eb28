"""Several processes of one machine beside one: REST publish, and lease and acknowledge.

The same work is done by each in turn. What decides is processor time: on a machine that others use too, and whose cores
the client shares, rates say as much about the neighbours as about the broker.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import httpx
import msgspec
import uvloop

from bench.http_load import Connection, connect, get, post
from bench.node_process import NodeProcess
from bench.report import Figure

COUNTS = (1, 2, 4, 8)
ROUNDS = 6
PARTITIONS = 16
QUEUES = 8  # topics with a group each, so that their groups are kept by different processes
CONNECTIONS = 16
IDLE_S = 5.0
VALUE = "x" * 100


class Work(msgspec.Struct, frozen=True):
    """`kind` is a function below; so many requests of so many messages."""

    name: str
    kind: str
    requests: int
    batch: int
    key: str = ""

    @property
    def messages(self) -> int:
        return self.requests * self.batch


WORKS = (
    Work("publish, batches of 100", "publish", 800, 100),
    Work("publish, one message a request", "publish", 3_200, 1),
    Work("publish, one message with a key", "publish", 3_200, 1, "key"),
    Work("lease and acknowledge, batches of 100", "drain", 400, 100),
)


class Done(msgspec.Struct, frozen=True):
    """Messages a second, and the processor time of a message on either side, in microseconds."""

    rate: float
    server_us: float
    client_us: float
    cores: float  # that the node used meanwhile


class ManyProcesses(NodeProcess):
    """A node and the processes below it."""

    def __init__(self, data_dir: Path, count: int) -> None:
        super().__init__(data_dir, "--processes", str(count), settings={"GOQUEUE_TOPICS_PARTITIONS": str(PARTITIONS)})
        self.count = count
        self.idle = 0.0  # cores that it uses while nobody asks for anything

    def look_idle(self) -> None:
        time.sleep(1.0)
        before = self.cpu_seconds()
        time.sleep(IDLE_S)
        self.idle = (self.cpu_seconds() - before) / IDLE_S

    def pids(self) -> list[int]:
        children = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()
        return [self.pid, *map(int, children)]

    def cpu_seconds(self) -> float:
        return sum(map(cpu_of, self.pids()))


def cpu_of(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory_of(pid: int) -> int:
    """With a share of what several processes use."""
    text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    return next(int(line.split()[1]) * 1024 for line in text.splitlines() if line.startswith("Pss:"))


# --- the load, in a process of its own -------------------------------------------------------------------------------


async def publish(url: str, work: Work) -> None:
    key = {"key": work.key} if work.key else {}
    places = iter(range(work.requests))  # of all connections, since some of them have a busier process

    async def run(line: Connection) -> None:
        for place in places:
            given = {name: f"{value}-{place % 997}" for name, value in key.items()}
            body = {"messages": [{"value": VALUE, **given}] * work.batch}
            await line.send(post(f"{url}/topics/bench-{place % QUEUES}/messages", msgspec.json.encode(body)))

    lines = await connect(url, CONNECTIONS)
    await asyncio.gather(*map(run, lines))
    for line in lines:
        line.close()


async def drain(url: str, work: Work) -> None:
    """Two consumers for each group; what was published before is there for them."""
    left = dict.fromkeys(range(QUEUES), work.messages // QUEUES)

    async def run(line: Connection, queue: int) -> None:
        group = f"{url}/groups/workers-{queue}"
        asked = {"client_id": "bench", "topics": [f"bench-{queue}"], "mode": "shared", "auto_commit": False}
        member = json.loads(await line.send(post(f"{group}/join", msgspec.json.encode(asked))))
        name, generation = member["member_id"], member["generation"]
        while left[queue] > 0:
            poll = f"{group}/poll?member_id={name}&generation={generation}&limit={work.batch}&timeout=500ms"
            polled = json.loads(await line.send(get(poll)))
            generation = polled["generation"]
            if receipts := [one["receipt"] for one in polled["messages"]]:
                await line.send(post(f"{url}/messages/ack", msgspec.json.encode({"receipts": receipts})))
                left[queue] -= len(receipts)
        await line.send(post(f"{group}/leave", msgspec.json.encode({"member_id": name})))

    lines = await connect(url, 2 * QUEUES)
    await asyncio.gather(*(run(line, number % QUEUES) for number, line in enumerate(lines)))
    for line in lines:
        line.close()


KINDS: dict[str, Callable[[str, Work], asyncio.Future[None]]] = {"publish": publish, "drain": drain}  # type: ignore[dict-item]


def load(url: str, work: Work) -> dict[str, float]:
    began, used = time.perf_counter(), _own_cpu()
    uvloop.run(KINDS[work.kind](url, work))  # type: ignore[arg-type]
    return {"seconds": time.perf_counter() - began, "cpu": _own_cpu() - used}


def _own_cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


# --- the figures -----------------------------------------------------------------------------------------------------


def done(node: ManyProcesses, work: Work) -> Done:
    if work.kind == "drain":
        run_load(node.url, msgspec.structs.replace(WORKS[0], requests=work.requests))
    before = node.cpu_seconds()
    found = run_load(node.url, work)
    server = node.cpu_seconds() - before - node.idle * found["seconds"]
    count = work.messages / 1e6
    return Done(work.messages / found["seconds"], server / count, found["cpu"] / count, server / found["seconds"])


def run_load(url: str, work: Work) -> dict[str, float]:
    command = [sys.executable, "-m", "bench.processes", url, msgspec.json.encode(work).decode()]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120)
    if ended.returncode:
        raise RuntimeError(ended.stderr)
    found: dict[str, float] = json.loads(ended.stdout)
    return found


def process_figures(root: Path) -> Iterator[Figure]:
    with ExitStack() as stack:
        nodes = [stack.enter_context(ManyProcesses(root / f"processes-{count}", count)) for count in COUNTS]
        for node in nodes:
            for queue in range(QUEUES):
                httpx.post(f"{node.url}/topics", json={"name": f"bench-{queue}"}, timeout=30).raise_for_status()
            node.look_idle()
            yield from memory_figures(node)
        for work in WORKS:
            yield from work_figures(nodes, work)


def memory_figures(node: ManyProcesses) -> Iterator[Figure]:
    used = [memory_of(pid) / 1e6 for pid in node.pids()]
    if node.count == 1:
        yield Figure("memory of one process", f"{used[0]:.0f} MB", f"idle {node.idle:.1%} of a core")
    else:
        each = statistics.mean(used[1:])
        yield Figure(
            f"memory of each of {node.count}",
            f"{each:.0f} MB",
            f"and {used[0]:.0f} MB for the supervisor; idle {node.idle:.1%} in all",
        )


def work_figures(nodes: Sequence[ManyProcesses], work: Work) -> Iterator[Figure]:
    found: dict[int, list[Done]] = {node.count: [] for node in nodes}
    for node in nodes:
        done(node, msgspec.structs.replace(work, requests=work.requests // 2))  # what is done once in a process's life
    for _ in range(ROUNDS):
        for node in nodes:
            found[node.count].append(done(node, work))
    yield Figure(work.name, "", "CPU a message, server + client; client's share; cores of the node")
    alone = found[1]
    one = least(alone)
    for count, rounds in found.items():
        mine = least(rounds)
        ratio = statistics.median(other.rate / first.rate for other, first in zip(rounds, alone, strict=True))
        share = mine.client_us / (mine.client_us + mine.server_us)
        told = f"{mine.server_us:.1f} + {mine.client_us:.1f} us; {share:.0%}; {mine.cores:.2f}"
        name = "one process" if count == 1 else f"{count} processes, {ratio:.2f} of one"
        yield Figure(f"  {name}", f"{mine.rate:,.0f} msg/s", told)
    for count in COUNTS[1:]:
        gain = count * one.server_us / least(found[count]).server_us
        yield Figure(f"  a core for each of {count} would give, by CPU a message", f"{gain:.2f} of one")


def least(rounds: Sequence[Done]) -> Done:
    """The middle of the rates; of processor time that of the round which neighbours disturbed least."""
    rate, cores = (statistics.median(values) for values in zip(*((one.rate, one.cores) for one in rounds), strict=True))
    return Done(rate, min(one.server_us for one in rounds), min(one.client_us for one in rounds), cores)


if __name__ == "__main__":
    print(json.dumps(load(sys.argv[1], msgspec.json.decode(sys.argv[2], type=Work))))
