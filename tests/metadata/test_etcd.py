"""The metadata store on a real etcd whose members die, stop in the middle and forget."""

from __future__ import annotations

import asyncio
import shutil
import signal
import socket
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import grpc
import msgspec
import pytest
import uvloop

from goqueue.base.errors import GoQueueError, MetadataConflict, StoreOutOfReach
from goqueue.base.metadata import ABSENT, Commit, WatchedTooLate
from goqueue.core.cluster.records import TopicRecord, encode
from goqueue.drive.etcd_calls import COMPACT, EtcdCalls, EtcdSettings
from goqueue.drive.etcd_metadata import EtcdMetadata
from goqueue.drive.image_follower import ImageFollower
from goqueue.wire import etcd_pb2
from tests.etcd import EtcdMember, add_user, allow_only_root, etcd_members
from tests.waiting import wait_until_async

SESSION_S = 2


@pytest.fixture
def members(tmp_path: Path) -> Iterator[list[EtcdMember]]:
    with etcd_members(tmp_path, 3) as found:
        yield found


def on_store(settings: EtcdSettings, scenario: Callable[[EtcdMetadata], Awaitable[None]]) -> None:
    async def main() -> None:
        store = EtcdMetadata(settings)
        await until_done(store.open)
        try:
            await asyncio.wait_for(scenario(store), 240)
        finally:
            await store.close()

    uvloop.run(main())


def settings(members: list[EtcdMember]) -> EtcdSettings:
    return EtcdSettings([one.client for one in members], session_s=SESSION_S, call_s=1.0)


async def until_done(work: Callable[[], Awaitable[object]]) -> None:
    """Tried again while the store elects, as its users do."""
    for _ in range(200):
        try:
            await work()
            return
        except StoreOutOfReach:
            await asyncio.sleep(0.1)
    raise AssertionError("the store never came back")


async def put(store: EtcdMetadata, key: str, value: str) -> None:
    await until_done(lambda: store.commit(Commit({key: value})))


def test_reads_writes_and_watches_go_on_when_members_die_one_after_the_other(members: list[EtcdMember]) -> None:
    async def scenario(store: EtcdMetadata) -> None:
        seen: dict[str, str] = {}
        begin = (await store.read()).revision

        async def follow() -> None:
            async for change in store.watch(begin):
                seen.update({entry.key: entry.value for entry in change.puts})

        following = asyncio.create_task(follow())
        await put(store, "topics/before", "1")
        for number, member in enumerate(members):
            member.kill()
            await put(store, f"topics/t{number}", "made while one was away")
            member.start()
        await put(store, "topics/last", "1")
        await wait_until_async(lambda: "topics/last" in seen, lambda: seen)
        assert list(seen) == ["topics/before", "topics/t0", "topics/t1", "topics/t2", "topics/last"]
        assert set((await store.read()).entries) == set(seen)
        following.cancel()

    on_store(settings(members), scenario)


def test_a_member_that_stops_in_the_middle_is_left(members: list[EtcdMember]) -> None:
    async def scenario(store: EtcdMetadata) -> None:
        seen: list[str] = []
        begin = (await store.read()).revision

        async def follow() -> None:
            async for change in store.watch(begin):
                seen.extend(entry.key for entry in change.puts)

        following = asyncio.create_task(follow())
        session = await store.open_session()
        await store.commit(Commit({"nodes/1": "me"}, session=session.id))
        members[0].signal(signal.SIGSTOP)  # the one that is asked first
        try:
            await put(store, "topics/a", "1")
            await wait_until_async(lambda: "topics/a" in seen, lambda: seen)
            await asyncio.sleep(length_s + 1)
            assert not session.is_lost, "another member renewed it"
            assert "nodes/1" in (await store.read()).entries
        finally:
            members[0].signal(signal.SIGCONT)
            following.cancel()

    length_s = 6  # the one that stands still may be who leads the others: they need a moment to choose another
    on_store(msgspec.structs.replace(settings(members), session_s=length_s), scenario)


def test_a_watch_leaves_a_member_that_takes_connections_and_never_answers(tmp_path: Path) -> None:
    """Commits through this node wait for the watch: the controller's as well."""
    with etcd_members(tmp_path) as [member], socket.create_server(("127.0.0.1", 0)) as silent:

        async def scenario(store: EtcdMetadata) -> None:
            begin = (await store.read()).revision
            store._calls._current = 0  # as after a failure of the other one
            changes = store.watch(begin)
            following = asyncio.ensure_future(anext(changes))
            await asyncio.sleep(0.1)
            await put(store, "topics/a", "1")
            (entry,) = (await asyncio.wait_for(following, 8)).puts
            assert entry.key == "topics/a"

        places = [f"127.0.0.1:{silent.getsockname()[1]}", member.client]
        on_store(EtcdSettings(places, session_s=SESSION_S, call_s=1.0), scenario)


@asynccontextmanager
async def standing_still(revision: int) -> AsyncIterator[str]:
    """The address of a member that answers and hears nothing new, as one whose disk hangs."""

    async def watch(requests: AsyncIterator[etcd_pb2.WatchRequest], _: object) -> AsyncIterator[etcd_pb2.WatchResponse]:
        async for request in requests:
            header = etcd_pb2.Header(revision=revision)
            yield etcd_pb2.WatchResponse(header=header, created=request.HasField("create"))

    server = grpc.aio.server()
    handler = grpc.stream_stream_rpc_method_handler(
        watch, etcd_pb2.WatchRequest.FromString, etcd_pb2.WatchResponse.SerializeToString
    )
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler("etcdserverpb.Watch", {"Watch": handler})])
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        await server.stop(0)


def test_a_watch_leaves_a_member_that_answers_and_hears_nothing_new(tmp_path: Path) -> None:
    with etcd_members(tmp_path) as [member]:

        async def scenario(store: EtcdMetadata) -> None:
            begin = (await store.read()).revision
            async with standing_still(begin) as address:
                both = EtcdMetadata(EtcdSettings([address, member.client], session_s=SESSION_S, call_s=1.0))
                following = asyncio.ensure_future(anext(both.watch(begin)))
                await asyncio.sleep(0.1)
                both._calls._current = 1  # for calls, which fail where it is asked
                await put(both, "topics/a", "1")
                (entry,) = (await asyncio.wait_for(following, 8)).puts
                assert entry.key == "topics/a"
                await both.close()

        on_store(settings([member]), scenario)


def test_without_a_quorum_nothing_hangs_and_the_session_is_lost_by_our_own_clock(members: list[EtcdMember]) -> None:
    async def scenario(store: EtcdMetadata) -> None:
        session = await store.open_session()
        await store.commit(Commit({"nodes/1": "me"}, session=session.id))
        for member in members[:2]:
            member.kill()
        with pytest.raises(StoreOutOfReach):
            async with asyncio.timeout(60):
                await store.commit(Commit({"topics/a": "1"}))
        await wait_until_async(lambda: session.is_lost)
        for member in members[:2]:
            member.start()
        await put(store, "topics/a", "2")
        assert session.is_lost, "what is lost stays lost"
        fresh = await store.open_session()
        await until_done(lambda: store.commit(Commit({"nodes/1": "again"}, session=fresh.id)))
        assert (await store.read()).entries["nodes/1"].session == fresh.id

    on_store(settings(members), scenario)


def test_the_keys_of_a_node_that_is_gone_without_a_word_end_with_its_session(members: list[EtcdMember]) -> None:
    async def scenario(store: EtcdMetadata) -> None:
        gone = EtcdMetadata(settings(members))
        session = await gone.open_session()
        begin = await gone.commit(Commit({"nodes/2": "mute", "controller": "2"}, session=session.id))
        await session._tasks.stop()  # nobody renews it
        async for change in store.watch(begin):
            assert sorted(change.deletes) == ["controller", "nodes/2"]
            break
        assert not (await store.read()).entries
        await gone.close()

    on_store(settings(members), scenario)


def test_a_watch_that_compaction_overtook_says_so(members: list[EtcdMember]) -> None:
    async def scenario(store: EtcdMetadata) -> None:
        begin = (await store.read()).revision
        await put(store, "topics/a", "1")
        await put(store, "topics/a", "2")
        calls = EtcdCalls(settings(members))
        await calls.ask(COMPACT, etcd_pb2.CompactRequest(revision=(await store.read()).revision))
        await calls.close()
        with pytest.raises(WatchedTooLate):
            async for _ in store.watch(begin):
                raise AssertionError("told a change that it cannot know")

    on_store(settings(members), scenario)


def test_who_watches_goes_on_with_a_store_that_was_set_back_to_a_backup(tmp_path: Path) -> None:
    with etcd_members(tmp_path) as [member]:

        async def scenario(store: EtcdMetadata) -> None:
            follower = ImageFollower(store, lambda _: None)
            await put(store, "topics/kept", _topic("kept"))
            await follower.start()
            member.kill()
            (kept,) = [path for path in tmp_path.iterdir() if path.is_dir()]
            shutil.copytree(kept, tmp_path / "backup")
            member.start()
            for number in range(5):
                await put(store, f"topics/gone{number}", _topic(f"gone{number}"))
            image = follower.image
            await wait_until_async(lambda: image.topic("gone4") is not None, image.topics)
            member.kill()
            shutil.rmtree(kept)
            (tmp_path / "backup").rename(kept)
            member.start()
            await put(store, "topics/other", _topic("other"))
            await wait_until_async(lambda: image.topic("other") is not None, image.topics)
            assert [one.name for one in image.topics()] == ["kept", "other"]
            await follower.commit(Commit({"topics/last": _topic("last")}))
            assert image.topic("last") is not None
            await follower.stop()

        on_store(settings([member]), scenario)


def _topic(name: str) -> str:
    return encode(TopicRecord(name, f"id-{name}", 1, {}, 1))


def test_more_keys_than_a_page_are_read_as_of_one_revision(members: list[EtcdMember]) -> None:
    async def scenario(store: EtcdMetadata) -> None:
        for first in range(0, 500, 100):
            await store.commit(Commit({f"topics/{number:03}": "x" for number in range(first, first + 100)}))
        found = await store.read()
        assert sorted(found.entries) == [f"topics/{number:03}" for number in range(500)]
        for number in range(3):
            with pytest.raises(MetadataConflict):
                await store.commit(Commit({"slots": "1"}, modified={f"topics/{number:03}": ABSENT}))

    on_store(settings(members[:1]), scenario)


def test_nobody_there_is_told_at_once() -> None:
    async def main() -> None:
        store = EtcdMetadata(EtcdSettings(["127.0.0.1:1"], call_s=1.0))
        with pytest.raises(StoreOutOfReach, match="cannot be reached"):
            await store.open()
        await store.close()

    uvloop.run(main())


# --- who may ----------------------------------------------------------------------------------------------


def certificates(directory: Path) -> tuple[str, ...]:
    """An authority, and a certificate of it for server and client alike."""

    def openssl(*arguments: str) -> None:
        subprocess.run(["openssl", *arguments], cwd=directory, check=True, capture_output=True, timeout=60)

    key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")
    openssl("req", "-x509", *key, "-keyout", "ca.key", "-out", "ca.crt", "-subj", "/CN=test authority", "-days", "2")
    openssl("req", *key, "-keyout", "node.key", "-out", "node.csr", "-subj", "/CN=node")
    (directory / "names").write_text("subjectAltName=IP:127.0.0.1\nextendedKeyUsage=serverAuth,clientAuth\n")
    signed = ("-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial", "-extfile", "names", "-days", "2")
    openssl("x509", "-req", "-in", "node.csr", "-out", "node.crt", *signed)
    return tuple(str(directory / name) for name in ("ca.crt", "node.crt", "node.key"))


def test_mutual_tls(tmp_path: Path) -> None:
    ca, cert, key = certificates(tmp_path)
    flags = (f"--cert-file={cert}", f"--key-file={key}", f"--trusted-ca-file={ca}", "--client-cert-auth")

    async def scenario(store: EtcdMetadata) -> None:
        await store.commit(Commit({"topics/a": "1"}))
        assert "topics/a" in (await store.read()).entries
        stranger = EtcdMetadata(EtcdSettings([member.client], ca_file=ca, call_s=1.0))
        with pytest.raises(StoreOutOfReach):
            await stranger.open()
        await stranger.close()

    with etcd_members(tmp_path, 1, *flags, scheme="https") as (member,):
        on_store(EtcdSettings([member.client], ca_file=ca, cert_file=cert, key_file=key), scenario)


def test_user_and_password_and_a_token_that_ran_out(tmp_path: Path) -> None:
    """Tokens of two seconds: calls, watch and session go on with new ones."""

    async def scenario(store: EtcdMetadata) -> None:
        session = await store.open_session()
        begin = await store.commit(Commit({"nodes/1": "me"}, session=session.id))
        await asyncio.sleep(4)
        await store.commit(Commit({"topics/a": "1"}))
        async for change in store.watch(begin):
            assert [one.key for one in change.puts] == ["topics/a"]
            break
        assert not session.is_lost
        for user, password in (("root", "wrong"), ("nobody", "x"), ("", "")):
            stranger = EtcdMetadata(EtcdSettings([member.client], user=user, password=password))
            with pytest.raises(GoQueueError):
                await stranger.read()
            await stranger.close()

    with etcd_members(tmp_path, 1, "--auth-token-ttl=2") as (member,):
        allow_only_root(f"http://{member.client}")
        on_store(EtcdSettings([member.client], user="root", password="secret", session_s=SESSION_S), scenario)


def test_signed_tokens_go_on_when_somebody_changes_the_users_of_etcd(tmp_path: Path) -> None:
    private, public = tmp_path / "private.pem", tmp_path / "public.pem"
    for command in (["genrsa", "-out", private, "2048"], ["rsa", "-in", private, "-pubout", "-out", public]):
        subprocess.run(["openssl", *map(str, command)], check=True, capture_output=True)

    async def scenario(store: EtcdMetadata) -> None:
        await store.commit(Commit({"topics/a": "1"}))
        await asyncio.to_thread(add_user, f"http://{member.client}", "somebody")
        await store.commit(Commit({"topics/b": "1"}))
        assert set((await store.read()).entries) == {"topics/a", "topics/b"}

    token = f"jwt,pub-key={public},priv-key={private},sign-method=RS256,ttl=10m"
    with etcd_members(tmp_path, 1, f"--auth-token={token}") as (member,):
        allow_only_root(f"http://{member.client}")
        on_store(EtcdSettings([member.client], user="root", password="secret", session_s=SESSION_S), scenario)
