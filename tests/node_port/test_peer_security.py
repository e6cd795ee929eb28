"""Who is let in at the port between nodes, and who is believed there: secrets and certificates."""

from __future__ import annotations

import asyncio
import random
import shutil
import socket
from collections.abc import AsyncIterator, Awaitable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final, TypeVar

import pytest
import uvloop

from goqueue.base.cluster_settings import ClusterSettings
from goqueue.base.errors import PeerOutOfReach, PeerUntrusted
from goqueue.base.startup_errors import SettingsInvalid
from goqueue.drive.peer_link import PeerLink
from goqueue.drive.peer_security import PeerSecurity, security_of
from goqueue.drive.peers import PeerVerb
from goqueue.edge.peers.door import PeerDoor
from goqueue.wire.node_frames import PROTOCOL, Hello, Kind, encode_frame, encode_hello
from goqueue.wire.node_proof import MAGIC, NONCE_BYTES, PROOF_BYTES, CalledProof, CallerProof, WrongProof
from tests.certificates import Authority, CertificateFiles

SERVER = Hello(PROTOCOL, "c1", 1, "1.1", "0")
CLIENT = Hello(PROTOCOL, "c1", 2, "2.1", "0")
OURS, THEIRS = PeerSecurity([b"0123456789abcdef"]), PeerSecurity([b"another-secret-of-16"])
NOTHING = PeerSecurity()
T = TypeVar("T")


async def echo(peer: Hello, body: bytes) -> bytes:
    return body


ECHO: Final[Mapping[str, PeerVerb]] = {"echo": echo}


@asynccontextmanager
async def serving(security: PeerSecurity, verbs: Mapping[str, PeerVerb] = ECHO) -> AsyncIterator[PeerDoor]:
    door = PeerDoor(SERVER, socket.create_server(("127.0.0.1", 0)), verbs, security)
    await door.start()
    try:
        yield door
    finally:
        await door.stop()


async def called(door: PeerDoor, security: PeerSecurity, body: bytes = b"x", verb: str = "echo") -> bytes:
    link = PeerLink(*door.address, CLIENT, 1, security)
    try:
        return await link.call(verb, body, 20)
    finally:
        link.close()


def run(scenario: Awaitable[T]) -> T:
    async def main() -> T:
        async with asyncio.timeout(120):
            return await scenario

    return uvloop.run(main())


# --- the proof ------------------------------------------------------------------------------------------------


def proofs(called: list[bytes], caller: list[bytes]) -> tuple[CalledProof, CallerProof]:
    return CalledProof(called, b"s" * NONCE_BYTES), CallerProof(caller, b"c" * NONCE_BYTES)


def fed(side: CalledProof | CallerProof, data: bytes, chance: random.Random) -> bytes | None:
    """In pieces; what was left over of them."""
    rest: bytes | None = None
    while data:
        cut = chance.randrange(1, 20)
        piece, data = data[:cut], data[cut:]
        rest = side.feed(piece) if rest is None else rest + piece
    return rest


def test_both_sides_prove_that_they_know_the_secret_however_it_is_cut() -> None:
    chance = random.Random(3)
    for _ in range(100):
        called, caller = proofs([b"k" * 16], [b"k" * 16])
        assert fed(caller, called.greeting, chance) is None
        assert fed(called, caller.answer + b"a frame behind", chance) == b"a frame behind"
        assert fed(caller, called.answer + b"another", chance) == b"another"


def test_nothing_that_one_side_sent_is_a_proof_of_the_other() -> None:
    called, caller = proofs([b"k" * 16], [b"k" * 16])
    caller.feed(called.greeting)
    called.feed(caller.answer)
    mirror = CalledProof([b"k" * 16], b"s" * NONCE_BYTES)
    with pytest.raises(WrongProof):
        mirror.feed(b"c" * NONCE_BYTES + called.answer)
    other = CallerProof([b"k" * 16], b"c" * NONCE_BYTES)
    other.feed(called.greeting)
    with pytest.raises(WrongProof):
        other.feed(caller.answer[NONCE_BYTES:])


def test_one_bit_is_enough_to_be_refused() -> None:
    for bit in range(8 * PROOF_BYTES):
        called, caller = proofs([b"k" * 16], [b"k" * 16])
        caller.feed(called.greeting)
        wrong = bytearray(caller.answer)
        wrong[NONCE_BYTES + bit // 8] ^= 1 << bit % 8
        with pytest.raises(WrongProof):
            called.feed(bytes(wrong))
        assert not called.answer


def test_one_secret_can_follow_another() -> None:
    old, new = b"o" * 16, b"n" * 16
    for first, second in (([old], [old, new]), ([old, new], [new, old]), ([new, old], [new]), ([new], [new, old])):
        called, caller = proofs(first, second)
        caller.feed(called.greeting)
        if second[0] not in first:
            continue
        called.feed(caller.answer)
        assert caller.feed(called.answer) == b""


# --- the port -------------------------------------------------------------------------------------------------


def test_nodes_that_know_the_secret_call_each_other() -> None:
    async def scenario() -> None:
        async with serving(OURS) as door:
            assert await called(door, OURS, b"y" * 5_000_000) == b"y" * 5_000_000

    run(scenario())


@pytest.mark.parametrize("caller", [NOTHING, THEIRS])
def test_who_does_not_know_it_can_ask_for_nothing(caller: PeerSecurity) -> None:
    async def scenario() -> None:
        async with serving(OURS) as door:
            with pytest.raises(PeerUntrusted):
                await called(door, caller)
            assert await called(door, OURS) == b"x"

    run(scenario())


@pytest.mark.parametrize("caller", [NOTHING, THEIRS])
def test_who_does_not_know_it_reads_nothing_by_any_verb(caller: PeerSecurity) -> None:
    """None of what a node serves is even begun."""

    async def scenario() -> None:
        asked: list[str] = []

        def recorded(verb: str) -> PeerVerb:
            async def answer(peer: Hello, body: bytes) -> bytes:
                asked.append(verb)
                return b"of this cluster alone"

            return answer

        verbs = {name: recorded(name) for name in ("ping", "fetch", "range", "do", "announce")}
        async with serving(OURS, verbs) as door:
            for verb in verbs:
                with pytest.raises(PeerUntrusted):
                    await called(door, caller, b"x", verb)
            assert asked == []
            assert await called(door, OURS, b"x", "fetch") == b"of this cluster alone"

    run(scenario())


def test_a_proof_that_was_heard_opens_no_other_connection() -> None:
    """Somebody between two nodes hears a whole connection, and says the same again."""
    heard: list[bytes] = []

    async def scenario() -> None:
        async with serving(OURS) as door:

            async def pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, is_kept: bool) -> None:
                while data := await reader.read(65_536):
                    if is_kept:
                        heard.append(data)
                    writer.write(data)
                writer.close()

            async def between(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                there, back = await asyncio.open_connection(*door.address)
                await asyncio.gather(pass_on(reader, back, True), pass_on(there, writer, False))

            async with await asyncio.start_server(between, "127.0.0.1", 0) as server:
                link = PeerLink("127.0.0.1", server.sockets[0].getsockname()[1], CLIENT, 1, OURS)
                assert await link.call("echo", b"x", 20) == b"x"
                link.close()
            reader, writer = await asyncio.open_connection(*door.address)
            writer.write(b"".join(heard))
            told = await reader.read(-1)
            assert len(told) == len(MAGIC) + NONCE_BYTES, "a greeting, no answer"
            writer.close()

    run(scenario())
    assert len(b"".join(heard)) > NONCE_BYTES + PROOF_BYTES


def test_who_knows_it_tells_nothing_to_a_port_that_does_not() -> None:
    async def scenario() -> None:
        async with serving(THEIRS) as door:
            with pytest.raises(PeerUntrusted):
                await called(door, OURS)
        seen: list[bytes] = []
        ended = asyncio.Event()

        async def false_node(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(MAGIC + b"s" * NONCE_BYTES)
            seen.append(await reader.readexactly(NONCE_BYTES + PROOF_BYTES))
            writer.write(b"p" * PROOF_BYTES)
            seen.append(await reader.read())
            writer.close()
            ended.set()

        async with await asyncio.start_server(false_node, "127.0.0.1", 0) as server:
            link = PeerLink("127.0.0.1", server.sockets[0].getsockname()[1], CLIENT, 1, OURS)
            with pytest.raises(PeerUntrusted):
                await link.call("echo", b"x", 20)
            link.close()
            await ended.wait()
        assert seen[1] == b"", "no hello, no call"

    run(scenario())


def test_hostile_bytes_before_the_proof_are_not_decoded() -> None:
    async def scenario() -> None:
        chance = random.Random(5)
        async with serving(OURS) as door:
            for _ in range(60):
                reader, writer = await asyncio.open_connection(*door.address)
                hello = b"".join(encode_frame(Kind.HELLO, 0, encode_hello(CLIENT)))
                writer.write(chance.choice([chance.randbytes(chance.randrange(1, 300)), hello, hello * 3, b"\0" * 64]))
                writer.write_eof() if chance.random() < 0.5 else writer.write(chance.randbytes(200))
                told = await reader.read(-1)
                assert told.startswith(MAGIC) and len(told) == len(MAGIC) + NONCE_BYTES, "a greeting, no welcome"
                writer.close()
            assert await called(door, OURS) == b"x"

    run(scenario())


# --- certificates ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def stranger(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("stranger"))


def secured(files: CertificateFiles, secret: str = "") -> PeerSecurity:
    return security_of(settings_of(files, secret))


def settings_of(files: CertificateFiles, secret: str = "") -> ClusterSettings:
    return ClusterSettings(tls_cert=str(files.cert), tls_key=str(files.key), tls_ca=str(files.ca), secret=secret)


def test_nodes_with_certificates_of_one_authority_call_each_other(authority: Authority) -> None:
    one, other = secured(authority.sign("one"), "s" * 16), secured(authority.sign("other"), "s" * 16)

    async def scenario() -> None:
        async with serving(one) as door:
            assert await called(door, other, b"y" * 3_000_000) == b"y" * 3_000_000
            with pytest.raises(PeerUntrusted):
                await called(door, secured(authority.sign("third"), "t" * 16))

    run(scenario())


def test_strangers_and_those_without_certificates_are_not_let_in(authority: Authority, stranger: Authority) -> None:
    ours, theirs = secured(authority.sign("ours")), secured(stranger.sign("theirs"))
    files = stranger.sign("half")
    half = secured(files._replace(ca=authority.sign("any").ca))  # trusts us, and we do not trust it

    async def scenario() -> None:
        async with serving(ours) as door:
            for caller in (theirs, half, NOTHING):
                with pytest.raises(PeerOutOfReach):
                    await called(door, caller)
            assert await called(door, ours) == b"x"

    run(scenario())


def test_a_certificate_for_another_host_is_not_believed(authority: Authority) -> None:
    elsewhere = secured(authority.sign("elsewhere", "DNS:elsewhere.example"))

    async def scenario() -> None:
        async with serving(elsewhere) as door:
            with pytest.raises(PeerUntrusted):
                await called(door, secured(authority.sign("caller")))

    run(scenario())


def test_certificates_are_read_again_when_their_files_change(
    authority: Authority, stranger: Authority, tmp_path: Path
) -> None:
    old, new = authority.sign("old"), stranger.sign("new")
    files = CertificateFiles(tmp_path / "cert", tmp_path / "key", tmp_path / "ca")

    def put(chosen: CertificateFiles) -> None:
        for source, target in zip(chosen, files, strict=True):
            shutil.copy(source, f"{target}.new")
            Path(f"{target}.new").replace(target)

    put(old)
    live = secured(files)

    async def scenario() -> None:
        async with serving(live) as door:
            assert await called(door, secured(old)) == b"x"
            put(new)
            assert await called(door, secured(new)) == b"x"
            assert await called(door, live) == b"x"
            with pytest.raises(PeerOutOfReach):
                await called(door, secured(old))
            files.cert.write_text("half a cert")
            assert await called(door, secured(new)) == b"x", "the last ones hold"

    run(scenario())


# --- settings -------------------------------------------------------------------------------------------------


def test_what_cannot_be_used_is_told_at_the_start(tmp_path: Path, authority: Authority) -> None:
    empty, short = tmp_path / "empty", tmp_path / "short"
    empty.write_text("\n")
    short.write_text("short")
    wrong = [
        ClusterSettings(secret="short"),
        ClusterSettings(secret_file=str(tmp_path / "missing")),
        ClusterSettings(secret_file=str(empty)),
        ClusterSettings(secret_file=str(short)),
        ClusterSettings(tls_cert=str(empty), tls_key=str(empty), tls_ca=str(empty)),
        settings_of(authority.sign("a")._replace(key=authority.sign("b").key)),
    ]
    for settings in wrong:
        with pytest.raises(SettingsInvalid):
            security_of(settings)
