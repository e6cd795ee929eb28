"""A publish whose leader changes or falls silent in the middle is sent again, and is there once."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable

import msgspec
import pytest

from goqueue.base.commands import (
    Acks,
    DeduplicationScope,
    InputMessage,
    OnceMessage,
    PublishBatch,
    PublishedOnce,
    PublishMessages,
    PublishOnce,
    PublishResult,
    ScheduledAt,
    StoredAt,
)
from goqueue.base.errors import GoQueueError, LeaderChanged, NotLeader, PeerLost, ReplicasTimedOut
from goqueue.base.ids import TopicPartition
from goqueue.base.sqs_envelope import Envelope
from goqueue.broker import Broker
from goqueue.core.deduplication_ids import DeduplicationIds
from goqueue.drive.replica_fetches import FETCH_BYTES
from goqueue.format.records import NewRecord, build
from goqueue.service.publish import Publish
from goqueue.service.router import DO, Router
from tests.nodes.cluster import Nodes, patiently, run_nodes, until
from tests.nodes.test_transactions import read

Run = Callable[[Callable[[Nodes], Awaitable[None]]], None]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Run:
    def runner(story: Callable[[Nodes], Awaitable[None]]) -> None:
        run_nodes(story, monkeypatch)

    return runner


class Publishers:
    """Several at once, through one node; each goes on when its message is acknowledged."""

    def __init__(self, nodes: Nodes, node: int, at: TopicPartition, count: int = 4) -> None:
        self.acknowledged: list[str] = []
        self.errors: list[GoQueueError] = []
        self._broker = nodes.brokers[node]
        self._at = at
        self._tasks = [nodes.run_at(node, self._run(number)) for number in range(count)]
        self._is_over = False

    async def _run(self, publisher: int) -> None:
        number = 0
        while not self._is_over:
            value = f"{publisher}-{number}"
            message = InputMessage(None, value.encode(), partition=self._at.partition)
            command = PublishMessages(self._at.topic, [message])
            (result,) = await self._broker.routed(self._broker.publish).messages(command)
            if isinstance(result, GoQueueError):
                self.errors.append(result)
            else:
                self.acknowledged.append(value)
            number += 1
            await asyncio.sleep(0.002)

    async def stop(self) -> None:
        self._is_over = True
        await asyncio.gather(*self._tasks)


async def publish(nodes: Nodes, node: int, topic: str, *messages: InputMessage, acks: Acks = Acks.ALL) -> PublishResult:
    broker = nodes.brokers[node]
    results = await broker.routed(broker.publish).messages(PublishMessages(topic, list(messages), acks))
    assert all(isinstance(one, StoredAt) for one in results), results
    return results[0]


async def stored(nodes: Nodes, at: TopicPartition) -> list[str]:
    found: list[str] = await patiently(lambda: read(nodes, at))
    return found


@pytest.mark.parametrize("round_number", range(3))
def test_leaders_die_under_publishes_and_no_request_fails_and_nothing_is_there_twice(
    run: Run, round_number: int
) -> None:
    async def story(nodes: Nodes) -> None:
        await nodes.create("t", 6)
        at = nodes.place_at(0, "t")
        publishers = Publishers(nodes, 2, at)
        for _ in range(2):
            await asyncio.sleep(0.4 + 0.0007 * round_number)
            dead = nodes.any.node.shard_map.leader_of(at)
            if dead == 2:
                break
            nodes.kill(dead)
            await asyncio.sleep(2)
            await nodes.start(dead)
            await nodes.until_led()
        await publishers.stop()
        values = await stored(nodes, at)
        assert not publishers.errors, publishers.errors
        assert len(publishers.acknowledged) > 100
        assert Counter(values) == Counter(publishers.acknowledged), "each of them once"

    run(story)


def test_leaders_that_hand_over_again_and_again_make_no_request_fail(run: Run) -> None:
    async def story(nodes: Nodes) -> None:
        await nodes.create("t", 6)
        at = nodes.place_at(0, "t")
        shard = nodes.any.node.shard_map.of_partition(at)
        publishers = Publishers(nodes, 2, at)
        for node in (1, 2, 0, 1, 0):
            await asyncio.sleep(0.1)
            await nodes.move(shard, node)
        await asyncio.sleep(0.3)
        await publishers.stop()
        values = await stored(nodes, at)
        assert not publishers.errors, publishers.errors
        assert Counter(values) == Counter(publishers.acknowledged)

    run(story)


def test_an_answer_that_is_lost_is_asked_for_again_and_is_the_same(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of several messages for several partitions, some of which the topic refuses."""
    lost: list[int] = []
    ask = Router.ask

    async def forgetful(self: Router, node: int, service: type, verb: str, *more: object, **named: object) -> object:
        answer = await ask(self, node, service, verb, *more, **named)  # type: ignore[arg-type]
        if service is Publish and len(lost) < 3:
            lost.append(node)
            raise PeerLost("The connection to the other node ended.")
        return answer

    async def story(nodes: Nodes) -> None:
        await nodes.create("t", 3, {"cleanup.policy": "compact"})
        monkeypatch.setattr(Router, "ask", forgetful)
        keys = [b"a", b"b", None, b"c", b"d", b"e"]
        messages = [InputMessage(key, b"v", partition=place % 3) for place, key in enumerate(keys)]
        broker = nodes.brokers[1]
        results = await broker.routed(broker.publish).messages(PublishMessages("t", messages))
        assert len(lost) == 3
        assert [type(one).__name__ for one in results].count("StoredAt") == 5
        assert isinstance(results[2], GoQueueError) and results[2].code == "key-required"
        for number in range(3):
            assert len(await stored(nodes, TopicPartition("t", number))) == (1 if number == 2 else 2)
        again = await publish(nodes, 1, "t", InputMessage(b"f", b"v", partition=0))
        assert isinstance(again, StoredAt) and again.offset == 2, "the next one goes on behind them"

    run(story)


def test_what_waits_for_its_time_is_sent_again_and_is_there_once(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    lost: list[int] = []
    ask = Router.ask

    async def forgetful(self: Router, node: int, service: type, verb: str, *more: object, **named: object) -> object:
        answer = await ask(self, node, service, verb, *more, **named)  # type: ignore[arg-type]
        if service is Publish and len(lost) < 2:
            lost.append(node)
            raise PeerLost("The connection to the other node ended.")
        return answer

    async def story(nodes: Nodes) -> None:
        await nodes.create("t", 2)
        monkeypatch.setattr(Router, "ask", forgetful)
        broker = nodes.brokers[1]
        messages = [InputMessage(None, f"{place}".encode(), partition=place % 2, delay_ms=60_000) for place in range(4)]
        results = await broker.routed(broker.publish).messages(PublishMessages("t", messages))
        assert all(isinstance(one, ScheduledAt) for one in results), results
        assert len(lost) == 2 and len({(one.partition, one.offset) for one in results}) == 4  # type: ignore[union-attr]
        again = await broker.routed(broker.publish).messages(PublishMessages("t", messages[:1]))
        assert isinstance(again[0], ScheduledAt) and again[0] != results[0], "another publish is another message"
        assert sum(one.scheduling.pending("t") for one in nodes.brokers.values()) == 5

    run(story)


@pytest.mark.parametrize("is_stored", [True, False])
def test_a_leader_that_dies_with_a_message_that_waits_is_followed_by_one_that_has_it_once(
    run: Run, is_stored: bool
) -> None:
    async def story(nodes: Nodes) -> None:
        await nodes.create("t", 6)
        at = nodes.place_at(0, "t")
        broker = nodes.brokers[2]

        async def die(source: int, target: int, verb: str) -> None:
            if (source, target, verb) == (2, 0, DO) and 0 in nodes.brokers:
                nodes.kill(0, "kept")
                raise PeerLost("The node went away.")

        if is_stored:
            nodes.after_call = die
        else:
            nodes.before_call = die
        command = PublishMessages("t", [InputMessage(None, b"v", partition=at.partition, delay_ms=5_000)])
        (result,) = await broker.routed(broker.publish).messages(command)
        assert 0 not in nodes.brokers and isinstance(result, ScheduledAt), result
        await asyncio.sleep(10)
        assert await stored(nodes, at) == ["v"]

    run(story)


def test_what_was_due_at_once_is_not_sent_again(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    ask = Router.ask

    async def forgetful(self: Router, node: int, service: type, verb: str, *more: object, **named: object) -> object:
        answer = await ask(self, node, service, verb, *more, **named)  # type: ignore[arg-type]
        if service is Publish:
            raise PeerLost("The connection to the other node ended.")
        return answer

    async def story(nodes: Nodes) -> None:
        await nodes.create("t", 1)
        monkeypatch.setattr(Router, "ask", forgetful)
        broker = nodes.brokers[1]
        command = PublishMessages("t", [InputMessage(None, b"v", partition=0, deliver_at_ms=1)])
        (result,) = await broker.routed(broker.publish).messages(command)
        assert isinstance(result, PeerLost)
        monkeypatch.setattr(Router, "ask", ask)
        assert await stored(nodes, TopicPartition("t", 0)) == ["v"]

    run(story)


def test_many_batches_of_one_publish_are_there_once(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """As many as are remembered, and the first answer is lost."""
    lost: list[int] = []
    ask = Router.ask

    async def forgetful(self: Router, node: int, service: type, verb: str, *more: object, **named: object) -> object:
        answer = await ask(self, node, service, verb, *more, **named)  # type: ignore[arg-type]
        if service is Publish and not lost:
            lost.append(node)
            raise PeerLost("The connection to the other node ended.")
        return answer

    async def story(nodes: Nodes) -> None:
        await nodes.create("t", 1, {"max.message.bytes": 1024})
        monkeypatch.setattr(Router, "ask", forgetful)
        messages = [InputMessage(None, bytes([65 + place]) * 600) for place in range(5)]
        first = await publish(nodes, 1, "t", *messages)
        assert first == StoredAt(0, 0) and lost
        assert len(await stored(nodes, TopicPartition("t", 0))) == 5

    run(story)


def test_a_log_that_lost_what_nobody_waited_for_is_written_to_all_the_same(run: Run) -> None:
    async def story(nodes: Nodes) -> None:
        await nodes.create("t", 6)
        at = nodes.place_at(0, "t")
        message = InputMessage(None, b"v", partition=at.partition)
        for _ in range(3):
            await publish(nodes, 1, "t", message)
            await publish(nodes, 1, "t", message, acks=Acks.LEADER)
        nodes.kill(0)
        await publish(nodes, 1, "t", message)
        assert len(await stored(nodes, at)) in (6, 7)

    run(story)


def test_a_leader_that_lost_a_message_and_leads_again_acknowledges_it_to_nobody(run: Run) -> None:
    """It still waits for another partition's replicas when it does."""

    async def story(nodes: Nodes) -> None:
        await nodes.create("t", 6)
        broker = nodes.brokers[0]
        slow, lost = (at for number in range(6) if broker.node.shard_map.leads(at := TopicPartition("t", number)))
        with nodes.held_fetches(0) as release:
            await asyncio.sleep(1)  # those under way end
            messages = [InputMessage(None, b"v", partition=at.partition) for at in (slow, lost)]
            asked = asyncio.ensure_future(broker.publish.messages(PublishMessages("t", messages)))
            await asyncio.sleep(0.01)
            shard = broker.node.shard_map.of_partition(lost)
            nodes.appoint(shard, 1)
            log = broker.topics.require("t").partition(lost.partition).log
            await until(lambda: log.end_offset == 0)
            nodes.appoint(shard, 0)
            await asyncio.sleep(0.1)
            assert not asked.done()
            release()
            first, second = await asked
        assert isinstance(first, StoredAt) and await stored(nodes, slow) == ["v"]
        assert isinstance(second, LeaderChanged) and await stored(nodes, lost) == []

    run(story)


def test_records_of_batches_that_wait_are_acknowledged_when_they_are_safe_too(run: Run) -> None:
    """They are in another log than their batches, and more than one fetch of a follower brings."""

    async def story(nodes: Nodes) -> None:
        await nodes.create("t", 6)
        at, broker = nodes.place_at(0, "t"), nodes.brokers[0]
        waits = NewRecord(None, bytes(900_000), (("goqueue-delay", b"1h"),), broker.clock.now_ms())
        count = 2 * FETCH_BYTES // 900_000
        for _ in range(count):
            broker.publish.append(PublishBatch(at, build([waits])))
        assert not broker.publish.is_durable(at)
        await broker.publish.wait_durable(at)
        assert broker.publish.is_durable(at)
        nodes.kill(0)
        await nodes.until_led()
        assert nodes.leader_of(at).scheduling.pending("t") == count

    run(story)


def test_a_topic_that_is_made_again_elsewhere_waits_for_nothing_of_the_last_one(run: Run) -> None:
    """Records of a batch without an answer waited in the schedule of the shard that the topic was in."""

    async def story(nodes: Nodes) -> None:
        await nodes.create("t", 6)
        broker = nodes.brokers[0]
        shards = broker.node.shard_map
        waits = NewRecord(None, b"v", (("goqueue-delay", b"1h"),), broker.clock.now_ms())
        first = {at: shards.of_partition(at) for number in range(6) if shards.leads(at := TopicPartition("t", number))}
        for at in first:
            broker.publish.append(PublishBatch(at, build([waits]), Acks.NONE))
        await broker.topics.delete("t")
        await nodes.create("other", 1)
        await nodes.create("t", 6)
        at, before = next((at, shard) for at, shard in first.items() if shards.of_partition(at) != shard)
        await nodes.move(before, 1)
        if not shards.leads(at):
            await nodes.move(shards.of_partition(at), 0)
        partition = broker.topics.require("t").partition(at.partition)
        await until(lambda: partition.state.is_served)
        await broker.publish.batch(PublishBatch(at, build([NewRecord(None, b"v", (), 0)])))

    run(story)


@pytest.mark.parametrize("is_given_up", [True, False])
def test_a_deduplicated_publish_that_waits_for_replicas_in_vain_and_comes_again_is_there_once(
    run: Run, monkeypatch: pytest.MonkeyPatch, is_given_up: bool
) -> None:
    """It is in the leader's log, and nobody was told: a client that goes away, or one that is told to try again."""

    async def waits(*_: object) -> None:
        if not is_given_up:
            raise ReplicasTimedOut("Too few replicas had it in time.")
        await asyncio.Event().wait()

    async def story(nodes: Nodes) -> None:
        await nodes.create("t", 1)
        at = TopicPartition("t", 0)
        broker = nodes.leader_of(at)
        log = broker.topics.require("t").partition(0).log
        command = _once(broker, "a")
        with monkeypatch.context() as patched:
            patched.setattr("goqueue.service.acknowledging.wait_for", waits)
            first = asyncio.ensure_future(broker.publish_once.messages(command))
            await until(lambda: log.end_offset == 1)
            first.cancel()
            await asyncio.wait([first])
        (again,) = await broker.publish_once.messages(command)
        assert isinstance(again, PublishedOnce) and again.message_id == "a"
        assert await read(nodes, at) == ["a"]

    run(story)


def test_a_deduplicated_publish_that_another_node_stores_and_nobody_waits_for_is_there_once(run: Run) -> None:
    """A client goes away while the replicas are slow, and comes again. Queues for high throughput have partitions at
    several nodes; the ids are known at one."""

    async def story(nodes: Nodes) -> None:
        await nodes.create("t", 6)
        broker = nodes.leader_of(TopicPartition("t", 0))
        other = (broker.node.shard_map.node + 1) % 3
        at = nodes.place_at(other, "t")
        log = nodes.brokers[other].topics.require("t").partition(at.partition).log
        command = _once(broker, "a", at.partition)
        with nodes.held_fetches(other) as release:
            await asyncio.sleep(1)  # those under way end
            first = asyncio.ensure_future(broker.publish_once.messages(command))
            await until(lambda: log.end_offset == 1)
            first.cancel()
            await asyncio.wait([first])
            again = asyncio.ensure_future(broker.publish_once.messages(command))
            await asyncio.sleep(1)
            release()
            (found,) = await again
        assert isinstance(found, PublishedOnce) and found.message_id == "a"
        assert await stored(nodes, at) == ["a"]

    run(story)


def test_the_id_of_a_message_that_enters_its_log_just_now_is_known(run: Run) -> None:
    """Its time has come, and replicas are slow: it does not wait any more, and nobody can read it yet."""

    async def story(nodes: Nodes) -> None:
        await nodes.create("t", 1)
        at = TopicPartition("t", 0)
        broker = nodes.leader_of(at)
        (once,) = (command := _once(broker, "a")).messages
        delayed = msgspec.structs.replace(once, message=msgspec.structs.replace(once.message, delay_ms=10_000))
        await broker.publish_once.messages(msgspec.structs.replace(command, messages=[delayed]))
        await asyncio.sleep(9.5)
        with nodes.held_fetches(broker.node.identity.node_id) as release:
            await asyncio.sleep(1)
            broker.publish_once.forget([broker.topics.require("t").record.id])
            broker.publish_once._ids = DeduplicationIds(100)  # as after a start
            again = asyncio.ensure_future(broker.publish_once.messages(command))
            await asyncio.sleep(0.1)
            release()
        await again
        await asyncio.sleep(1)
        assert await stored(nodes, at) == ["a"]

    run(story)


def test_a_node_that_does_not_know_the_last_ids_of_a_queue_stores_nothing_under_them(run: Run) -> None:
    """What was asked of it before another took over can reach it after that: from a client that has given up."""

    async def story(nodes: Nodes) -> None:
        await nodes.create("t", 1)
        at = TopicPartition("t", 0)
        before = nodes.leader_of(at)
        await before.publish_once.messages(_once(before, "a"))
        old, shard = before.node.shard_map.node, before.node.shard_map.of_partition(at)
        await nodes.move(shard, (old + 1) % 3)
        await until(lambda: nodes.leader_of(at) is not before)
        after = nodes.leader_of(at)
        await patiently(lambda: after.publish_once.messages(_once(after, "b")))
        with pytest.raises(NotLeader):
            await before.publish_once.messages(_once(before, "b"))
        assert await stored(nodes, at) == ["a", "b"]
        (found,) = await before.routed(before.publish_once).messages(_once(before, "b"))
        assert isinstance(found, PublishedOnce) and await stored(nodes, at) == ["a", "b"]

    run(story)


def _once(broker: Broker, word: str, partition: int = 0) -> PublishOnce:
    envelope = Envelope(id=word, sent_ms=broker.clock.now_ms(), sender="me", deduplication_id=word)
    message = InputMessage(b"g", word.encode(), partition=partition)
    return PublishOnce(DeduplicationScope("t"), [OnceMessage(message, envelope)])
