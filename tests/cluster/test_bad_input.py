"""Strangers at the port between nodes, while the cluster serves: they are told, and nobody else notices. Operators with
wrong input: a clear error, and nothing is begun."""

from __future__ import annotations

import random
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import closing, suppress
from typing import Any

import httpx
import msgspec
import pytest

from bench.cluster_process import ClusterProcess
from goqueue.base.encoding import decode, encode
from goqueue.base.errors import GoQueueError, InvalidField, WrongCluster, WrongVersion
from goqueue.base.limits import MIB
from goqueue.base.replication import FetchAsk, LogFetch, LogKey, RangeAsk, ShardFetch
from goqueue.wire.node_frames import PROTOCOL, FrameSplitter, Hello, Kind, NodeFrame, encode_call, encode_frame
from tests.cli.running import goqueue
from tests.cluster.clients import Writer, check_kept, make_topic, read_all
from tests.long import LONG
from tests.waiting import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("cluster"), pytest.mark.timeout(600)]
GROWTH_MAX = 200 * MIB


class Stranger:
    """A connection to a node's port for other nodes."""

    def __init__(self, cluster: ClusterProcess, node: int = 0) -> None:
        host, _, port = cluster.state()["nodes"][node]["addresses"]["node"].rpartition(":")
        self._socket = socket.create_connection((host, int(port)), timeout=30)
        self._splitter = FrameSplitter(64 * MIB)
        self._frames: list[NodeFrame] = []

    def send(self, *pieces: bytes) -> None:
        self._socket.sendall(b"".join(pieces))

    def frame(self) -> NodeFrame | None:
        """None when the node ends the connection."""
        while not self._frames:
            try:
                data = self._socket.recv(MIB)
            except ConnectionError:
                return None
            if not data:
                return None
            self._frames += self._splitter.feed(data)
        return self._frames.pop(0)

    def greet(self, cluster: ClusterProcess, **changes: object) -> NodeFrame | None:
        hello = Hello(PROTOCOL, cluster.state()["cluster_id"], 77, "stranger", "0")
        self.send(*encode_frame(Kind.HELLO, 0, msgspec.msgpack.encode(msgspec.structs.replace(hello, **changes))))
        return self.frame()

    def call(self, number: int, verb: str, body: bytes) -> NodeFrame | None:
        self.send(*encode_call(number, verb, 2_000, body))
        return self.frame()

    def close(self) -> None:
        self._socket.close()


@pytest.fixture
def stranger(cluster: ClusterProcess) -> Iterator[Stranger]:
    with closing(Stranger(cluster)) as made:
        yield made


def error_of(frame: NodeFrame | None) -> GoQueueError:
    assert frame is not None and frame.kind is Kind.ERROR
    return decode(frame.body, GoQueueError)


def test_another_cluster_is_refused_with_a_word(cluster: ClusterProcess, stranger: Stranger) -> None:
    told = error_of(stranger.greet(cluster, cluster_id="another"))
    assert isinstance(told, WrongCluster) and "another" in told.message
    assert stranger.frame() is None


def test_a_node_that_says_it_is_this_one_is_refused(cluster: ClusterProcess, stranger: Stranger) -> None:
    assert isinstance(error_of(stranger.greet(cluster, node_id=0)), WrongCluster)


def test_a_newer_version_is_answered_in_the_protocol_of_this_one(cluster: ClusterProcess, stranger: Stranger) -> None:
    told = stranger.greet(cluster, protocol=PROTOCOL + 7)
    assert told is not None and told.kind is Kind.WELCOME
    assert msgspec.msgpack.decode(told.body, type=Hello).protocol == PROTOCOL
    answer = stranger.call(1, "ping", b"there?")
    assert answer is not None and (answer.kind, answer.body) == (Kind.REPLY, b"there?")


@pytest.mark.parametrize("protocol", [0, -1])
def test_a_version_that_is_too_old_is_refused_with_a_word(
    cluster: ClusterProcess, stranger: Stranger, protocol: int
) -> None:
    told = error_of(stranger.greet(cluster, protocol=protocol))
    assert isinstance(told, WrongVersion) and str(protocol) in told.message


def random_bytes(cluster: ClusterProcess, chance: random.Random) -> None:
    with closing(Stranger(cluster, chance.randrange(3))) as stranger:
        stranger.send(chance.randbytes(chance.randrange(1, 4_000)))
        stranger.frame()


def huge_lengths(cluster: ClusterProcess, chance: random.Random) -> None:
    with closing(Stranger(cluster, chance.randrange(3))) as stranger:
        if chance.random() < 0.5:
            stranger.greet(cluster)
        stranger.send(struct.pack(">IBI", chance.choice([2**32 - 1, 2**31, 2**28]), chance.randrange(6), 0))
        stranger.send(bytes(100_000))
        stranger.frame()


def deep_nesting(cluster: ClusterProcess, chance: random.Random) -> None:
    with closing(Stranger(cluster, chance.randrange(3))) as stranger:
        if chance.random() < 0.5:
            stranger.send(*encode_frame(Kind.HELLO, 0, b"\x91" * 10_000))
            assert stranger.frame() is None
        else:
            stranger.greet(cluster)
            for number, verb in enumerate(("fetch", "do", "range")):
                frame = stranger.call(number, verb, b"\x91" * 100_000)
                assert frame is not None and frame.kind is Kind.ERROR


def bad_fields(cluster: ClusterProcess, chance: random.Random) -> None:
    def number() -> int:
        return chance.choice([-1, 0, 1, 2**31, 2**62, -(2**62), chance.randrange(100)])

    with closing(Stranger(cluster, chance.randrange(3))) as stranger:
        told = stranger.greet(cluster, node_id=chance.choice([1, 77]))
        if told is None or told.kind is not Kind.WELCOME:
            return  # it is node 1 itself
        key = LogKey(chance.choice(["", "no such topic"]), number())
        logs = [LogFetch(key, number(), number(), number()) for _ in range(chance.randrange(5))]
        shards = [ShardFetch(number(), number(), logs) for _ in range(3)]
        asks = {
            "fetch": encode(FetchAsk(shards, number(), min(number(), 100))),
            "range": encode(RangeAsk(number(), number(), key, number(), number())),
            "do": chance.randbytes(200),
            "no such verb": b"",
        }
        for at, (verb, body) in enumerate(asks.items()):
            assert stranger.call(at, verb, body) is not None, f"{verb} ended the connection"


def cut_short(cluster: ClusterProcess, chance: random.Random) -> None:
    with closing(Stranger(cluster, chance.randrange(3))) as stranger:
        stranger.greet(cluster)
        whole = b"".join(encode_call(1, "ping", 1_000, chance.randbytes(1_000)))
        stranger.send(whole[: chance.randrange(len(whole))])


ATTACKS = [random_bytes, huge_lengths, deep_nesting, bad_fields, cut_short]


def test_hostile_bytes_harm_nothing_while_the_cluster_serves(cluster: ClusterProcess) -> None:
    seed = random.randrange(1 << 30)
    chance, topic = random.Random(seed), make_topic(cluster)
    before = [node.rss_bytes() for node in cluster.nodes]
    said = [len(node.stderr) for node in cluster.nodes]
    with Writer(cluster, topic) as writer:
        for _ in range(150 if LONG else 40):  # a stranger who is waited for costs seconds
            with suppress(ConnectionError, BrokenPipeError, TimeoutError):
                chance.choice(ATTACKS)(cluster, chance)
        writer.wait_more(100)
    print(f"seed {seed}")
    assert writer.failed == []
    check_kept(writer, read_all(cluster, topic))
    assert cluster.state()["status"] == "ok"
    for node, was in zip(cluster.nodes, before, strict=True):
        assert node.rss_bytes() - was < GROWTH_MAX
    for node, length in zip(cluster.nodes, said, strict=True):
        assert "Traceback" not in node.stderr[length:]


def test_a_body_that_is_none_is_told(cluster: ClusterProcess, stranger: Stranger) -> None:
    stranger.greet(cluster)
    assert isinstance(error_of(stranger.call(1, "fetch", b"none of ours")), InvalidField)


def test_many_who_say_nothing_keep_no_node_away(cluster: ClusterProcess) -> None:
    topic = make_topic(cluster)
    with Writer(cluster, topic) as writer:
        idle = [Stranger(cluster, number % 3) for number in range(700)]
        writer.wait_more(50)
        cluster.kill(1)  # whoever comes back connects anew, behind all of them
        stopping = threading.Event()
        flood = threading.Thread(target=keep_coming, args=(cluster, stopping))
        flood.start()
        cluster.heal()
        writer.wait_more(50)
        stopping.set()
        flood.join(60)
        for one in idle:
            one.close()
    assert writer.failed == []
    check_kept(writer, read_all(cluster, topic))


def keep_coming(cluster: ClusterProcess, stopping: threading.Event) -> None:
    while not stopping.is_set():
        with suppress(OSError, Exception):
            held = [Stranger(cluster, node) for node in (0, 2) for _ in range(20)]
            stopping.wait(0.2)
            for one in held:
                one.close()


def test_slow_writers_are_let_go(cluster: ClusterProcess) -> None:
    with closing(Stranger(cluster)) as stranger:
        hello = b"".join(encode_frame(Kind.HELLO, 0, bytes(1_000)))
        stranger.send(hello[:5])
        wait_until(lambda: stranger.frame() is None, "the connection ends")


# --- operators ---------------------------------------------------------------------------------------------------

MOVES = "/admin/reassignment"

# method, path, body, status, what the answer says
ROUTES: list[tuple[str, str, object, int, str]] = [
    ("POST", MOVES, {}, 400, "one of the three"),
    ("POST", MOVES, {"drain": 1, "rebalance": True}, 400, "one of the three"),
    ("POST", MOVES, {"shards": {"99": [0, 1, 2]}}, 404, "There is no shard 99"),
    ("POST", MOVES, {"shards": {"-1": [0, 1, 2]}}, 404, "There is no shard -1"),
    ("POST", MOVES, {"shards": {"x": [0, 1, 2]}}, 400, "shards"),
    ("POST", MOVES, {"shards": {"0": "all"}}, 400, "shards"),
    ("POST", MOVES, {"shards": {"0": [0, 1, 9]}}, 404, "Node 9 does not belong"),
    ("POST", MOVES, {"shards": {"0": [0, 1, -1]}}, 404, "Node -1 does not belong"),
    ("POST", MOVES, {"shards": {"0": []}}, 400, "each named once"),
    ("POST", MOVES, {"shards": {"0": [0, 0, 1]}}, 400, "each named once"),
    ("POST", MOVES, {"shards": {"0": [0]}}, 409, "needs 2 replicas in sync"),
    ("POST", MOVES, {"shards": {"1": [1, 2, 0], "0": [0]}}, 409, "needs 2 replicas in sync"),
    ("POST", MOVES, {"shards": {"1": [1, 2, 0], "99": [0, 1]}}, 404, "There is no shard 99"),
    ("POST", MOVES, {"drain": 9}, 404, "Node 9 does not belong"),
    ("POST", MOVES, {"drain": 1}, 409, "only 2 nodes could hold one"),
    ("POST", MOVES, {"drain": "one"}, 400, "drain"),
    ("POST", MOVES, {"drain": []}, 400, "drain"),
    ("POST", MOVES, {"drain": [1, 2]}, 409, "only 1 node could hold one"),
    ("POST", MOVES, {"drain": [0, 1, 2]}, 409, "No node would be left"),
    ("POST", MOVES, {"drain": [2, 9]}, 404, "Node 9 does not belong"),
    ("POST", MOVES, {"drain": [2], "fill": [9]}, 404, "Node 9 does not belong"),
    ("POST", MOVES, {"drain": [2], "fill": [2]}, 400, "beside others"),
    ("POST", MOVES, {"fill": [2]}, 400, "one of the three"),
    ("POST", MOVES, {"rebalance": True, "by": "weather"}, 400, "by"),
    ("POST", MOVES, {"rebalance": True, "throttle": -1}, 400, "throttle"),
    ("POST", MOVES, {"drain": 1, "throttle": 1_000}, 409, "only 2 nodes could hold one"),
    ("POST", MOVES, {"rebalance": True, "faster": True}, 400, "faster"),
    ("POST", MOVES, [], 400, ""),
    ("POST", MOVES + "?now=1", {"rebalance": True}, 400, "now"),
    ("PATCH", MOVES, {}, 400, "throttle"),
    ("PATCH", MOVES, {"throttle": -1}, 400, "throttle"),
    ("PATCH", MOVES, {"throttle": 2**60}, 400, "throttle"),
    ("PATCH", MOVES, {"throttle": "fast"}, 400, "throttle"),
    ("DELETE", MOVES + "?shard=99", None, 404, "There is no shard 99"),
    ("DELETE", MOVES + "?shard=x", None, 400, "shard"),
    ("DELETE", MOVES + "?shard=-1", None, 400, "shard"),
    ("DELETE", MOVES + "?shards=1", None, 400, "shards"),
    ("DELETE", "/cluster/nodes/9", None, 404, "Node 9 does not belong"),
    ("DELETE", "/cluster/nodes/x", None, 404, "Node x does not belong"),
    ("DELETE", "/cluster/nodes/0", None, 409, "still holds"),
    ("POST", "/cluster/nodes/9/fill", None, 404, "Node 9 does not belong"),
    ("POST", "/cluster/nodes/1e3/fill", None, 404, "does not belong"),
    ("POST", "/cluster/shards/99/elect", None, 404, "There is no shard 99"),
    ("POST", "/cluster/shards/-1/elect", None, 400, "shard is a whole number"),
    ("POST", "/cluster/shards/0/elect?unclean=perhaps", None, 400, "unclean is true or false"),
    ("POST", "/cluster/shards/0/elect?dirty=true", None, 400, "dirty"),
    ("GET", "/cluster/nodes/9/restart-safe", None, 404, "Node 9 does not belong"),
    ("GET", "/cluster/metadata?topic=nothing", None, 404, "nothing"),
]

# words, exit code, what stderr says
COMMANDS: list[tuple[tuple[str, ...], int, str]] = [
    (("move", "99", "0", "1", "2", "--yes"), 1, "no shard 99"),
    (("move", "0", "0", "1", "9", "--yes"), 1, "Node 9 does not belong"),
    (("move", "0", "0", "--yes"), 1, "needs 2 replicas in sync"),
    (("move", "0", "0", "0", "1", "--yes"), 1, "each named once"),
    (("move", "0"), 2, "NODES"),
    (("move", "-1", "0"), 2, ""),
    (("move", "zero", "0"), 2, "zero"),
    (("drain", "9", "--yes"), 1, "Node 9 does not belong"),
    (("drain", "1", "--yes"), 1, "only 2 nodes could hold one"),
    (("drain", "1", "--yes", "--throttle", "1KiB"), 1, "only 2 nodes could hold one"),
    (("drain",), 2, "NODE"),
    (("rebalance", "--by", "weather"), 2, "weather"),
    (("rebalance", "--throttle", "fast", "--yes"), 2, "fast"),
    (("throttle", "fast"), 2, "fast"),
    (("throttle", "-1"), 2, ""),
    (("cancel", "99"), 1, "no shard 99"),
    (("elect", "99"), 1, "no shard 99"),
    (("elect", "x"), 2, "x"),
    (("elect",), 2, "SHARD"),
    (("elect", "0", "--unclean"), 2, "Nobody is here to answer"),
    (("remove", "9", "--yes"), 1, "Node 9 does not belong"),
    (("remove", "0", "--yes"), 1, "still holds"),
    (("fill", "9"), 1, "Node 9 does not belong"),
    (("restart-safe", "9"), 1, "Node 9 does not belong"),
    (("drain", "1", "2", "--yes"), 1, "only 1 node could hold one"),
    (("drain", "0", "1", "2", "--yes"), 1, "No node would be left"),
    (("moves", "--output", "colour"), 2, "colour"),
    (("scale", "0"), 2, "0"),
    (("scale", "-1"), 2, ""),
    (("scale", "two"), 2, "two"),
    (("scale",), 2, "NODES"),
    (("scale", "2"), 1, "only 2 nodes could hold one"),
    (("scale", "1"), 1, "only 1 node could hold one"),
    (("scale", "2", "--within", "soon"), 2, "soon"),
    (("scale", "2", "--finish", "--within", "1s"), 1, "still run"),
    (("hand-over", "9"), 1, "Node 9 does not belong"),
    (("hand-over", "1"), 1, "ask node 1 itself"),
    (("hand-over", "9", "--back"), 1, "Node 9 does not belong"),
    (("hand-over", "x"), 2, "x"),
    (("hand-over", "--within", "soon"), 2, "soon"),
]


def lasting(cluster: ClusterProcess) -> object:
    """What a command could have changed."""
    state: dict[str, Any] = cluster.state()
    shards = [(one["shard"], one["replicas"], one["min_in_sync"]) for one in state["shards"]]
    nodes = [(one["id"], one["state"], one["is_drained"]) for one in state["nodes"]]
    return shards, nodes, httpx.get(cluster.nodes[1].url + MOVES, timeout=30).json()


def test_routes(cluster: ClusterProcess) -> None:
    before, wrong = lasting(cluster), list[str]()
    with httpx.Client(base_url=cluster.nodes[1].url, timeout=30) as client:
        for method, path, body, status, words in ROUTES:
            answer = client.request(method, path, json=body) if body is not None else client.request(method, path)
            is_problem = answer.headers["content-type"].startswith("application/problem+json")
            if answer.status_code != status or words not in answer.text or not is_problem:
                wrong.append(f"{method} {path} {body}: {answer.status_code} {answer.text}")
        huge = client.post(MOVES, content=b'{"shards": {' + b" " * (128 << 20))
        assert huge.status_code == 413, huge.text
    assert not wrong, "\n".join(wrong)
    assert lasting(cluster) == before


def test_commands(cluster: ClusterProcess) -> None:
    before, wrong = lasting(cluster), list[str]()
    for words, code, said in COMMANDS:
        done = goqueue("cluster", *words, server=cluster.nodes[2].url)
        if done.exit_code != code or said not in done.stderr or "Traceback" in done.output:
            wrong.append(f"{words}: {done.exit_code} {done.stderr}")
    assert not wrong, "\n".join(wrong)
    assert lasting(cluster) == before


def test_a_node_that_is_alone_has_nobody_to_move_to(server_url: str) -> None:
    for words in (
        ("move", "0", "0"),
        ("rebalance",),
        ("drain", "0"),
        ("fill", "0"),
        ("remove", "0"),
        ("throttle", "1MiB"),
        ("hand-over",),
        ("hand-over", "--back"),
    ):
        given = words if words[0] in ("fill", "throttle", "hand-over") else (*words, "--yes")
        done = goqueue("cluster", *given, server=server_url)
        assert done.exit_code == 1 and "not in a cluster" in done.stderr, (words, done.output)
