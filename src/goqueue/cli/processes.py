"""`goqueue serve --processes N`: nodes of one machine, started, looked after and stopped together."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import logging
import os
import secrets
import shutil
import signal
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from goqueue.base.errors import GoQueueError
from goqueue.base.limits import DESCRIPTORS_SPARE
from goqueue.base.settings import Settings
from goqueue.base.started import Started
from goqueue.base.startup_errors import DataDirInUse, ProcessFailed
from goqueue.cli.process import NodeChild, how_it_ended
from goqueue.cli.process_doors import ProcessDoors
from goqueue.cli.process_orders import ProcessNews, ProcessOrders, data_dir_of, memory_bytes, settings_of
from goqueue.cli.process_store import ProcessStore
from goqueue.cli.started_block import block
from goqueue.core.cluster.records import MACHINE
from goqueue.drive.embedded_metadata import file_of
from goqueue.log.data_dir import DataDir
from goqueue.log.real_disk import RealDisk

logger = logging.getLogger(__name__)

LOCK_FILE: Final = "processes.lock"
_LEFT_OVER_S: Final = 30.0  # that processes of an earlier supervisor get to stop
_STOP_S: Final = 60.0
_LED_S: Final = 10.0
_STUCK_SESSIONS: Final = 4  # without a word, after the first has ended
_LOOK_S: Final = 0.2


def was_shared(data_dir: Path) -> bool:
    """Whether several processes used the directory: then a supervisor has to look after it, also for one."""
    try:
        return (data_dir / file_of(MACHINE)).exists()
    except PermissionError:
        return False  # whoever holds the directory next says so


class Supervisor:
    """`run` returns when all have stopped."""

    def __init__(self, settings: Settings, say: Callable[[str], None]) -> None:
        self._settings = settings
        self._say = say
        self._root = Path(settings.data.dir)
        self._wanted = settings.node.processes
        self._secret = secrets.token_hex(32)
        self._children: dict[int, NodeChild] = {}
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._stopping = asyncio.Event()
        self._hurrying = asyncio.Event()
        self._failure: ProcessFailed | None = None
        self._serves = False
        self._is_failing = False
        self._silent: dict[int, float] = {}  # processes that are not heard of, and since when

    async def run(self) -> None:
        """A `Startup` error if it cannot begin."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._asked_to_stop)
        loop.add_signal_handler(signal.SIGHUP, self._reload)
        directory = DataDir(self._root)
        directory.acquire()
        try:
            with self._held() as lock:
                await self._run(lock)
        finally:
            directory.release()
        if self._failure is not None:
            raise self._failure

    def _asked_to_stop(self) -> None:
        if self._stopping.is_set():
            self._hurrying.set()
        self._stopping.set()

    def _reload(self) -> None:
        for child in self._children.values():
            child.signal(signal.SIGHUP)

    @contextlib.contextmanager
    def _held(self) -> Iterator[int]:
        """A lock that every process has: those of a supervisor that was killed have to be gone first."""
        fd = os.open(self._root / LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            yield fd
        finally:
            os.close(fd)

    async def _run(self, lock: int) -> None:
        await self._wait_for_left_over(lock)
        numbers = [number for number in range(self._wanted, self._known()) if data_dir_of(self._root, number).is_dir()]
        count = max([self._wanted, *(number + 1 for number in numbers)])
        doors = ProcessDoors(self._settings, count)
        disk = RealDisk(self._root, DESCRIPTORS_SPARE)
        store = ProcessStore(disk, self._secret)
        try:
            await store.open(self._settings.node.id, self._wanted)
            leaving = [number for number in numbers if self._settings.node.id + number in store.holders()]
            for number in [*range(self._wanted), *leaving]:
                given = settings_of(self._settings, number, store.address, self._secret)
                orders = ProcessOrders(number, doors.settled(given, number), holds_data_dir=number == 0)
                self._children[number] = NodeChild(number, orders, lock)
            for number in self._children:
                self._tasks[number] = asyncio.create_task(self._look_after(number, store))
            await self._serve(store, doors)
        finally:
            await self._stop_all()
            await store.close()
            disk.close()
            doors.close()

    def _known(self) -> int:
        """One above the highest number of a process that has a directory."""
        found = [path.name.removeprefix("process-") for path in self._root.glob("process-*")]
        return max((int(number) + 1 for number in found if number.isdecimal()), default=1)

    async def _wait_for_left_over(self, lock: int) -> None:
        deadline = asyncio.get_running_loop().time() + _LEFT_OVER_S
        is_told = False
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except OSError:
                if asyncio.get_running_loop().time() > deadline or self._stopping.is_set():
                    message = f"Processes of an earlier start still use {self._root}; stop them first."
                    raise DataDirInUse(message, field="data.dir") from None
            if not is_told:
                logger.warning("processes of an earlier start are still stopping; waiting for them")
                is_told = True
            await asyncio.sleep(_LOOK_S)

    # --- while they run ----------------------------------------------------------------------------------------

    async def _look_after(self, number: int, store: ProcessStore) -> None:
        """Starts it again and again, until all are to stop or it is no longer needed."""
        child = self._children[number]
        while not self._stopping.is_set() and number in self._children:
            serves, ending = await _life(child)
            await store.node_gone(child.node)
            if self._stopping.is_set() or number not in self._children:
                return
            if not serves and not self._serves:
                self._failure = ProcessFailed(f"Process {number} does not start: {child.news.failure}")
                self._stopping.set()
                return
            pause_s = child.pause_s()
            extra = {"number": number, "error": child.news.failure} if child.news.failure else {"number": number}
            logger.error("a process %s; it is started again", ending, extra=extra)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), pause_s)

    async def _serve(self, store: ProcessStore, doors: ProcessDoors) -> None:
        readies = [asyncio.create_task(child.ready.wait()) for child in self._children.values()]
        stopping = asyncio.create_task(self._stopping.wait())
        everyone: asyncio.Future[Any] = asyncio.gather(*readies)
        await asyncio.wait([everyone, stopping], return_when=asyncio.FIRST_COMPLETED)
        everyone.cancel()
        if not self._stopping.is_set():
            self._serves = True
            await self._wait_led(store)
            self._say(self._block(store, doors))
        while not self._stopping.is_set():
            self._end_stuck(store)
            await self._balance_safely(store)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), _LOOK_S)
        stopping.cancel()

    async def _wait_led(self, store: ProcessStore) -> None:
        """So that whoever reads that all is ready finds it so; what takes longer is waited for by requests."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LED_S):
                while not store.is_led and not self._stopping.is_set():
                    await store.news()

    def _end_stuck(self, store: ProcessStore) -> None:
        """A process that lives and is long not heard of keeps its shards and holds the connections that it is dealt."""
        now, here = asyncio.get_running_loop().time(), store.image.nodes()
        silent = {number for number, child in self._children.items() if child.ready.is_set() and child.node not in here}
        self._silent = {number: self._silent.get(number, now) for number in silent}
        for number, since in self._silent.items():
            if now - since > _STUCK_SESSIONS * self._settings.cluster.session_ms / 1000:
                logger.error("a process stands still and is killed", extra={"number": number})
                self._children[number].signal(signal.SIGKILL)

    async def _balance_safely(self, store: ProcessStore) -> None:
        """Whatever keeps shards where they are, a full disk say, ends no process."""
        try:
            await self._balance(store)
            self._is_failing = False
        except (GoQueueError, OSError) as error:
            if not self._is_failing:
                logger.error("shards are not moved between processes", extra={"error": str(error)})
            self._is_failing = True

    async def _balance(self, store: ProcessStore) -> None:
        """Once all are there: what new ones are to have, and what those have that are to go."""
        base = self._settings.node.id
        wanted = {base + number for number in range(self._wanted)}
        living = {node for node, one in store.image.nodes().items() if not one.opening}
        if not living >= {child.node for child in self._children.values()}:
            return
        if moved := await store.spread(wanted):
            logger.info("shards move between processes", extra={"shards": moved})
        for number in [number for number in self._children if number >= self._wanted]:
            if base + number not in store.holders():
                await self._let_go(number, store)

    async def _let_go(self, number: int, store: ProcessStore) -> None:
        """It holds nothing: others have all that it had, on the disk."""
        child, task = self._children.pop(number), self._tasks.pop(number)
        child.signal(signal.SIGTERM)
        await asyncio.wait([task], timeout=_STOP_S)
        if not task.done():
            logger.error("a process did not stop in time and is killed", extra={"number": number})
            child.signal(signal.SIGKILL)
        await task
        await store.forget(child.node)
        path = data_dir_of(self._root, number)
        await asyncio.get_running_loop().run_in_executor(None, _remove, path)
        logger.info("a process is no longer needed; its shards are in the others", extra={"number": number})

    # --- the end -----------------------------------------------------------------------------------------------

    async def _stop_all(self) -> None:
        self._stopping.set()
        if self._serves:
            self._say("GoQueue is stopping.")
        for child in self._children.values():
            child.signal(signal.SIGTERM)
        if self._tasks:
            hurrying = asyncio.create_task(self._hurrying.wait())
            everyone: asyncio.Future[Any] = asyncio.gather(*self._tasks.values(), return_exceptions=True)
            await asyncio.wait([everyone, hurrying], timeout=_STOP_S, return_when=asyncio.FIRST_COMPLETED)
            hurrying.cancel()
            for child in self._children.values():
                if child.pid is not None:
                    logger.error("a process did not stop in time and is killed", extra={"number": child.number})
                    child.signal(signal.SIGKILL)
            await everyone
        if self._serves:
            self._say("GoQueue has stopped; everything accepted is safe.")

    # --- what a person is told ---------------------------------------------------------------------------------

    def _block(self, store: ProcessStore, doors: ProcessDoors) -> str:
        led, parts = store.led(), [child.news.started for child in self._children.values()]
        started = _summed([one for one in parts if one is not None], self._root)
        kafka = ",".join(doors.kafka_address(number) for number in self._children)
        started = msgspec.structs.replace(started, addresses={**started.addresses, "Kafka": kafka})
        lines = [f"  processes  {self._wanted}, looked after by {os.getpid()} ({_memory(os.getpid())})"]
        for number, child in self._children.items():
            what = f"{led.get(child.node, 0)} shards" if number < self._wanted else "about to go"
            lines.append(f"  process {number:<2} {child.pid} ({_memory(child.pid)}), {what}")
        return block(started, lines)


async def _life(child: NodeChild) -> tuple[bool, str]:
    """Whether it served, and how it ended."""
    try:
        await child.start()
    except OSError as error:
        child.news = ProcessNews(failure=f"It cannot be started: {error.strerror or error}.")
        return False, "could not be started"
    serves = await child.heard()
    return serves, how_it_ended(await child.ended())


def _remove(path: Path) -> None:
    """When all that others have instead is on the disk."""
    os.sync()
    shutil.rmtree(path, ignore_errors=True)


def _memory(pid: int | None) -> str:
    found = 0 if pid is None else memory_bytes(pid)
    return f"{found / 1e6:.0f} MB of memory" if found else "memory unknown"


def _summed(parts: Sequence[Started], root: Path) -> Started:
    """What a person is told of all of them."""
    return msgspec.structs.replace(
        parts[0],
        data_dir=str(root.resolve()),
        messages=None,
        bytes_checked=sum(one.bytes_checked for one in parts),
        bytes_cut=sum(one.bytes_cut for one in parts),
        bytes_replayed=sum(one.bytes_replayed for one in parts),
        damaged_ranges=sum(one.damaged_ranges for one in parts),
        damaged_entries=sum(one.damaged_entries for one in parts),
        seconds=max(one.seconds for one in parts),
    )
