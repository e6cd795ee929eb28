"""The parts of several processes, each by itself."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from pathlib import Path

import msgspec
import pytest
import uvloop

from goqueue.base.errors import PeerLost, SessionLost
from goqueue.base.metadata import Commit
from goqueue.base.settings import Settings, load_settings, parse_address
from goqueue.base.startup_errors import AddressUnusable, SettingsInvalid
from goqueue.cli.process import NodeChild
from goqueue.cli.process_doors import ProcessDoors
from goqueue.cli.process_orders import ProcessNews, ProcessOrders, settings_of
from goqueue.cli.process_store import ProcessStore
from goqueue.cli.processes import _life, was_shared
from goqueue.core.cluster.records import MACHINE, SHARDS, ShardRecord, encode
from goqueue.drive.embedded_metadata import file_of
from goqueue.drive.local_metadata import CLUSTER, KEEPER, SCHEME, LocalMetadata
from goqueue.drive.peer_security import PeerSecurity
from goqueue.drive.peers import connect
from goqueue.edge.listening import listen
from goqueue.log.real_disk import RealDisk
from goqueue.service.process_numbers import labelled, merged
from goqueue.wire.node_frames import PROTOCOL, Hello
from tests.waiting import wait_until_async

SECRET = "a secret of sixteen characters"


@pytest.mark.parametrize("text", ["0", "-1", "two", "65", "1.5", ""])
def test_a_number_of_processes_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(SettingsInvalid, match=r"flag for node\.processes"):
        load_settings(None, {}, {"node.processes": text})


def test_several_processes_need_no_store() -> None:
    with pytest.raises(SettingsInvalid, match=r"without cluster\.store"):
        load_settings(None, {}, {"node.processes": "2", "cluster.store": "etcd://a:1"})


def test_each_process_has_its_number_its_directory_and_its_port() -> None:
    given = load_settings(None, {}, {"node.processes": "3", "data.dir": "/d", "kafka.advertised": "host:9092"})
    found = [settings_of(given, number, f"{SCHEME}x", SECRET) for number in range(3)]
    assert [one.node.id for one in found] == [0, 1, 2]
    assert [one.data.dir for one in found] == ["/d", "/d/process-1", "/d/process-2"]
    assert [one.kafka.advertised for one in found] == ["host:9092", "host:9093", "host:9094"]
    assert {one.cluster.rack for one in found} == {os.uname().nodename}
    assert {one.node.shards for one in found} == {9}
    orders = ProcessOrders(1, found[1], holds_data_dir=False)
    assert msgspec.json.decode(msgspec.json.encode(orders), type=ProcessOrders) == orders


def test_doors_are_bound_once_and_let_go_when_one_is_taken() -> None:
    free = "127.0.0.1:0"
    flags = {"rest.listen": free, "kafka.listen": free, "sqs.listen": "off", "grpc.listen": free}
    doors = ProcessDoors(load_settings(None, {}, flags), 2)
    first, second = doors.settled(Settings(), 0), doors.settled(Settings(), 1)
    assert first.rest == second.rest and first.grpc == second.grpc and first.kafka != second.kafka
    assert first.sqs.listen == "off" and not first.rest.listen.endswith(":0")
    for taken in ("rest", "kafka", "grpc"):
        given = msgspec.structs.replace(load_settings(None, {}, flags), **{taken: getattr(second, taken)})
        with pytest.raises(AddressUnusable, match=rf"{taken}\.listen"):
            ProcessDoors(given, 2)
    doors.close()
    ProcessDoors(second, 1).close()


def test_a_directory_that_cannot_be_looked_into_is_left_to_who_takes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(path: Path) -> bool:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "exists", denied)
    assert not was_shared(Path("/data"))


def test_ports_of_processes_end_where_there_are_no_more() -> None:
    flags = {"rest.listen": "off", "kafka.listen": "127.0.0.1:65535", "sqs.listen": "off", "grpc.listen": "off"}
    with pytest.raises(AddressUnusable, match="2 processes listen at as many ports"):
        ProcessDoors(load_settings(None, {}, flags), 2)


def test_doors_are_free_again_at_once_though_clients_were_connected_when_they_closed() -> None:
    flags = {"rest.listen": "127.0.0.1:0", "kafka.listen": "off", "sqs.listen": "off", "grpc.listen": "off"}
    doors = ProcessDoors(load_settings(None, {}, flags), 1)
    settled = doors.settled(load_settings(None, {}, flags), 0)
    address = parse_address(settled.rest.listen)
    assert address is not None
    with listen(*address, "rest.listen", is_shared=True) as door:
        door.listen()
        door.setblocking(True)
        with socket.create_connection(address) as client:
            door.accept()[0].close()  # the side that closes first is the one that the system remembers
            assert client.recv(1) == b""
    doors.close()
    ProcessDoors(settled, 1).close()
    listen(*address, "rest.listen").close()


# --- a process ---------------------------------------------------------------------------------------------------


def test_a_process_loads_nothing_from_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "goqueue").mkdir()
    (tmp_path / "goqueue" / "__init__.py").write_text("raise SystemExit('of somebody else')")
    monkeypatch.chdir(tmp_path)
    closed = {f"{door}.listen": "off" for door in ("rest", "kafka", "sqs", "grpc")}
    settings = settings_of(load_settings(None, {}, {"data.dir": "d", **closed}), 0, f"{SCHEME}127.0.0.1:1", SECRET)

    async def story() -> ProcessNews:
        child = NodeChild(0, ProcessOrders(0, settings, holds_data_dir=False), 0)
        await child.start()
        assert not await child.heard()
        await child.ended()
        return child.news

    assert "cannot be used" in uvloop.run(asyncio.wait_for(story(), 60)).failure


def test_a_process_that_the_machine_has_no_room_for_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    async def no_room(*_: object, **__: object) -> None:
        raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")

    monkeypatch.setattr("asyncio.create_subprocess_exec", no_room)

    async def story() -> tuple[bool, str, str]:
        child = NodeChild(0, ProcessOrders(0, Settings(), holds_data_dir=False), 0)
        return *await _life(child), child.news.failure

    told = "It cannot be started: Resource temporarily unavailable."
    assert asyncio.run(story()) == (False, "could not be started", told)


# --- the store ---------------------------------------------------------------------------------------------------


def client_of(store: ProcessStore, node: int, secret: str = SECRET, session_s: float = 1.0) -> LocalMetadata:
    me = Hello(PROTOCOL, CLUSTER, node, "", "")
    link = connect(store.address.removeprefix(SCHEME), me, KEEPER, PeerSecurity([secret.encode()]))
    return LocalMetadata(link, session_s)


async def opened(directory: Path) -> ProcessStore:
    store = ProcessStore(RealDisk(directory), SECRET)
    await store.open(0, 2)
    return store


def test_a_start_that_changes_nothing_writes_nothing(tmp_path: Path) -> None:
    """So a full disk keeps no machine from starting."""
    shard = ShardRecord(0, 1, (0,), (0,), starts={0: "s"})

    async def story() -> None:
        store = await opened(tmp_path)
        await store._follower.commit(Commit({f"{SHARDS}0": encode(shard)}))
        await store.close()
        before = (tmp_path / file_of(MACHINE)).stat()
        await (await opened(tmp_path)).close()
        after = (tmp_path / file_of(MACHINE)).stat()
        assert (before.st_ino, before.st_mtime_ns) == (after.st_ino, after.st_mtime_ns)

    uvloop.run(asyncio.wait_for(story(), 60))


def test_a_session_ends_with_its_process_or_when_it_is_silent(tmp_path: Path) -> None:
    async def story() -> None:
        store = await opened(tmp_path)
        one, other = client_of(store, 0), client_of(store, 1)
        mine, theirs = await one.open_session(), await other.open_session()
        await one.commit(Commit({"nodes/0": "{}"}, session=mine.id))
        await other.commit(Commit({"nodes/1": "{}"}, session=theirs.id))
        await store.node_gone(1)
        assert set((await one.read()).entries) == {"machine", "nodes/0"}
        await wait_until_async(lambda: theirs.is_lost)
        with pytest.raises(SessionLost):
            await other.commit(Commit({"nodes/1": "{}"}, session=theirs.id))
        await mine._tasks.stop()  # as a process that stands still
        while "nodes/0" in (await other.read()).entries:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
        await one.close()
        await other.close()
        await store.close()

    uvloop.run(asyncio.wait_for(story(), 60))


def test_the_store_lets_nobody_in_who_does_not_know_the_secret(tmp_path: Path) -> None:
    async def story() -> None:
        store = await opened(tmp_path)
        host, _, port = store.address.removeprefix(SCHEME).rpartition(":")
        junk = [b"", b"\0" * 4096, b"GET / HTTP/1.1\r\n\r\n", b"\xff" * 70_000, os.urandom(5_000)]
        for data in junk:
            reader, writer = await asyncio.open_connection(host, int(port))
            writer.write(data)
            if not data:
                writer.close()
                continue
            try:
                said = await asyncio.wait_for(reader.read(), 10)  # its end comes: at once, or when a hello is due
            except ConnectionError:
                said = b""
            assert len(said) < 200, said
            writer.close()
        stranger = client_of(store, 0, "another secret of sixteen")
        with pytest.raises(PeerLost):
            await stranger._link.call("store.read", b"", 5)
        friend = client_of(store, 0)
        for verb, body in (
            ("store.commit", b"\xff"),
            ("store.watch", b"\x93"),
            ("store.nothing", b""),
            ("store.read", b""),
        ):
            with pytest.raises(Exception, match=r"cannot be read|knows no verb"):
                await friend._link.call(verb, body, 5)
        assert "machine" in (await friend.read()).entries
        await friend.close()
        await store.close()

    uvloop.run(asyncio.wait_for(story(), 90))


# --- numbers -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("a_total 1.0", 'a_total{process="3"} 1.0'),
        ('a{b="c d"} 1', 'a{process="3",b="c d"} 1'),
        ("a{} 1", 'a{process="3"} 1'),
        ('a_bucket{le="1"} 2 # {trace_id="x"} 0.5', 'a_bucket{process="3",le="1"} 2 # {trace_id="x"} 0.5'),
        ('a_total 2 # {trace_id="x"} 0.5', 'a_total{process="3"} 2 # {trace_id="x"} 0.5'),
    ],
)
def test_a_series_names_its_process(line: str, shown: str) -> None:
    assert labelled(line, 3) == shown


def test_pages_of_processes_are_one_page() -> None:
    page = b"# HELP a_total An a.\n# TYPE a_total counter\na_total 1\n"
    found = merged({0: page + b"# EOF\n", 2: page + b"# EOF\n"}, [0, 1, 2]).decode()
    assert found == (
        "# HELP a_total An a.\n# TYPE a_total counter\n"
        'a_total{process="0"} 1\na_total{process="2"} 1\n'
        "# HELP goqueue_process_up 1 if the process of this number answers.\n# TYPE goqueue_process_up gauge\n"
        'goqueue_process_up{process="0"} 1\ngoqueue_process_up{process="1"} 0\ngoqueue_process_up{process="2"} 1\n'
        "# EOF\n"
    )


@pytest.mark.parametrize("end", ["\r", "\x0b", "\x1c", "\x85", "\u2028"])
def test_the_name_of_a_group_ends_no_line_of_a_page(end: str) -> None:
    line = f'lag{{group="g{end}goqueue_process_up 0"}} 1'
    assert f'lag{{process="0",{line[4:]}\n' in merged({0: f"# TYPE lag gauge\n{line}\n".encode()}, [0]).decode()
