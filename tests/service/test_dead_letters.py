"""Dead letters in virtual time: browsed, deleted, redriven."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from goqueue.base.commands import Appended, InputMessage, PublishBatch, PublishMessages
from goqueue.base.errors import (
    CorruptBatch,
    InternalTopic,
    InvalidField,
    InvalidGroup,
    RedriveRunning,
    UnknownDeadLetter,
    UnknownRedrive,
    UnknownTopic,
)
from goqueue.base.leases import Take
from goqueue.broker import Broker
from goqueue.core.dead_letter import EVERYTHING, KEEPER, DeadLetterFilter
from goqueue.core.redrive import RedriveRequest
from goqueue.drive import delivery_runner
from goqueue.format.records import NewRecord, build
from goqueue.sim.disk import SimDisk
from goqueue.sim.time import VirtualLoop, run_virtually
from tests.service.brokers import broker_on, fetch, fetch_all, publish
from tests.service.dead import at, buried, bury, letters, over, reject_all, take, values


def with_broker(scenario: Callable[[Broker], Awaitable[None]], disk: SimDisk | None = None) -> None:
    async def run(loop: VirtualLoop) -> None:
        async with broker_on(disk or SimDisk(), loop) as broker:
            if broker.topics.find("t") is None:
                await broker.topics.create("t", 1, {})
            await scenario(broker)

    run_virtually(run)


def numbered(count: int, begin: int = 0) -> list[InputMessage]:
    return [InputMessage(f"k{n}".encode(), f"{n}".encode()) for n in range(begin, begin + count)]


def test_a_letter_tells_everything() -> None:
    async def scenario(broker: Broker) -> None:
        message = InputMessage(
            None, b"\xff\x00", (("trace", b"\xfe"), ("trace", b"two"), ("empty", None)), timestamp_ms=17
        )
        await bury(broker, [message], reason="cannot read")
        (letter,) = await letters(broker)
        assert (letter.key, letter.value, letter.headers) == (None, b"\xff\x00", message.headers)
        assert (letter.topic, letter.origin_partition, letter.origin_offset, letter.group) == ("t", 0, 0, "g")
        assert (letter.reason, letter.text, letter.attempts, letter.failures) == ("REJECTED", "cannot read", 1, 1)
        assert letter.timestamp_ms == 17 and letter.first_ms <= letter.died_ms <= broker.clock.now_ms()
        assert await broker.letters.show("t", 0, 0) == letter
        stats = await broker.letters.stats("t")
        assert (stats.total, stats.by_reason, stats.by_group, stats.by_origin) == (
            1,
            {"REJECTED": 1},
            {"g": 1},
            {"t": 1},
        )

    with_broker(scenario)


def test_pages_and_filters() -> None:
    async def scenario(broker: Broker) -> None:
        await bury(
            broker, [InputMessage(None, f"{n}".encode(), (("color", b"red" if n % 2 else b"blue"),)) for n in range(5)]
        )
        middle = broker.clock.now_ms() + 1_000
        await asyncio.sleep(2)
        await publish(broker, "t", "other")
        one = (await take(broker, group="h"))[-1]
        await broker.leasing.reject([one.receipt])
        await buried(broker, "t")
        first = await broker.letters.page("t", EVERYTHING, None, 4)
        assert [one.offset for one in first.letters] == [0, 1, 2, 3] and first.next == (0, 4)
        rest = await broker.letters.page("t", EVERYTHING, first.next, 4)
        assert [one.offset for one in rest.letters] == [4, 5] and rest.next is None

        async def found(chosen: DeadLetterFilter) -> list[int]:
            return [one.offset for one in await letters(broker, chosen)]

        assert await found(DeadLetterFilter(headers=(("color", "red"),))) == [1, 3]
        assert await found(DeadLetterFilter(group="h")) == [5]
        assert await found(DeadLetterFilter(from_ms=middle)) == [5]
        assert await found(DeadLetterFilter(to_ms=middle)) == [0, 1, 2, 3, 4]
        assert await found(DeadLetterFilter(reason="REJECTED", group="g", headers=(("color", "blue"),))) == [0, 2, 4]
        assert await found(DeadLetterFilter(reason="TTL_EXPIRED")) == []

    with_broker(scenario)


def test_a_deleted_letter_is_gone_for_ever() -> None:
    disk = SimDisk()

    async def scenario(broker: Broker) -> None:
        await bury(broker, numbered(4))
        await broker.letters.delete("t", 0, 2)
        assert [one.offset for one in await letters(broker)] == [0, 1, 3]
        with pytest.raises(UnknownDeadLetter):
            await broker.letters.delete("t", 0, 2)
        for missing in ((0, 9), (7, 0)):
            with pytest.raises(UnknownDeadLetter):
                await broker.letters.show("t", *missing)

    async def later(broker: Broker) -> None:
        assert [one.offset for one in await letters(broker)] == [0, 1, 3]
        task = await over(broker, await broker.redrives.start("t.dlq"))
        assert (task.state, task.total, task.moved) == ("completed", 3, 3)
        assert await values(broker, "t") == ["0", "1", "2", "3", "0", "1", "3"]

    with_broker(scenario, disk)
    with_broker(later, disk)


def test_a_redriven_message_is_whole_and_marked() -> None:
    async def scenario(broker: Broker) -> None:
        message = InputMessage(None, b"\xff", (("a", b"\x80"), ("a", None), ("goqueue-priority", b"0")))
        await bury(broker, [message])
        task = await over(broker, await broker.redrives.start("t.dlq"))
        assert (task.state, task.matched, task.moved, task.skipped, task.failed) == ("completed", 1, 1, {}, 0)
        _, copy = await fetch_all(broker, "t", 0)
        marks = (("goqueue-redrives", b"1"), ("goqueue-redriven-from", b"t.dlq:0:0"))
        assert (copy.key, copy.value, copy.headers) == (None, b"\xff", message.headers + marks)
        assert await letters(broker) == []
        assert (await broker.letters.stats("t")).total == 0
        (again,) = await take(broker)
        assert again.stored.value == b"\xff" and again.attempt == 1

    with_broker(scenario)


def test_a_message_that_keeps_failing_stays_with_the_dead_letters() -> None:
    async def scenario(broker: Broker) -> None:
        await bury(broker, numbered(1))
        for _ in range(3):
            assert (await over(broker, await broker.redrives.start("t.dlq"))).moved == 1
            assert await reject_all(broker) == 1
        task = await over(broker, await broker.redrives.start("t.dlq"))
        assert (task.moved, task.skipped) == (0, {"looping": 1})
        (letter,) = await letters(broker)
        assert letter.redrives == 3 and letter.value == b"0"
        assert len(await values(broker, "t")) == 4
        await broker.topics.alter("t", {"queue.max.redrives": 0}, None)
        assert (await over(broker, await broker.redrives.start("t.dlq"))).moved == 1

    with_broker(scenario)


def test_only_what_fits_is_moved_up_to_the_limit() -> None:
    async def scenario(broker: Broker) -> None:
        await bury(broker, numbered(3))
        await broker.publish.messages(PublishMessages("t", [InputMessage(None, b"old", ttl_ms=1)]))
        await broker.topics.alter("t", {"queue.expired.dead.letter": "true"}, None)
        await asyncio.sleep(1)
        await take(broker)
        await buried(broker, "t")
        assert {one.reason for one in await letters(broker)} == {"REJECTED", "TTL_EXPIRED"}
        preview = await broker.redrives.preview(RedriveRequest("t.dlq"))
        assert (preview.matched, preview.movable, preview.by_reason) == (4, 4, {"REJECTED": 3, "TTL_EXPIRED": 1})
        assert len(await letters(broker)) == 4
        task = await over(
            broker, await broker.redrives.start("t.dlq", None, None, DeadLetterFilter(reason="TTL_EXPIRED"))
        )
        assert task.moved == 1
        (old,) = await take(broker)
        assert old.stored.value == b"old", "its time to live is over, and it was asked for"
        task = await over(broker, await broker.redrives.start("t.dlq", limit=2))
        assert task.moved == 2 and [one.value for one in await letters(broker)] == [b"2"]

    with_broker(scenario)


def test_letters_go_where_they_are_sent_or_stay_with_a_reason() -> None:
    async def scenario(broker: Broker) -> None:
        await broker.topics.create("shared", 2, {})
        for name in ("a", "b"):
            await broker.topics.create(name, 2, {"queue.dead.letter.topic": "shared"})
            await bury(broker, [InputMessage(b"k", name.encode(), partition=1)], name)
        await publish(broker, "shared", "by hand")
        assert [one.topic for one in await letters(broker, DeadLetterFilter(topic="a"), "a")] in (
            ["a", None],
            [None, "a"],
        )
        await broker.topics.delete("a")
        task = await over(broker, await broker.redrives.start("shared"))
        assert (task.moved, task.skipped) == (1, {"unknown-topic": 1, "no-origin": 1})
        assert [one.value for one in await fetch(broker, "b", 0, partition=1)] == [b"b", b"b"]
        task = await over(broker, await broker.redrives.start("shared", "t"))
        assert (task.moved, task.skipped) == (2, {})
        assert sorted(await values(broker, "t")) == ["a", "by hand"]

    with_broker(scenario)


def test_a_compacted_target_gets_only_letters_with_a_key() -> None:
    async def scenario(broker: Broker) -> None:
        await broker.topics.create("c", 1, {"cleanup.policy": "compact"})
        await bury(broker, [InputMessage(None, b"bare"), InputMessage(b"k", b"keyed")])
        task = await over(broker, await broker.redrives.start("t.dlq", "c"))
        assert (task.moved, task.skipped) == (1, {"key-required": 1})
        assert await values(broker, "c") == ["keyed"]

    with_broker(scenario)


def test_the_rate_is_kept() -> None:
    async def scenario(broker: Broker) -> None:
        await bury(broker, numbered(700))
        began = broker.clock.now_ms()
        task = await broker.redrives.start("t.dlq", None, 100)
        counts: list[int] = []
        for _ in range(5):
            await asyncio.sleep(1)
            counts.append(broker.redrives.find(task.id).moved)
        assert all(abs(count - 100 * (n + 1)) <= 10 for n, count in enumerate(counts)), counts
        now = broker.redrives.find(task.id)
        assert now.moved_per_s == pytest.approx(100, abs=5) and now.eta_ms == pytest.approx(2_000, abs=300)
        task = await over(broker, task)
        assert 6_900 <= broker.clock.now_ms() - began <= 7_300

    with_broker(scenario)


def test_one_at_a_time_and_cancelled_in_the_middle() -> None:
    disk = SimDisk()

    async def scenario(broker: Broker) -> None:
        await bury(broker, numbered(100))
        task = await broker.redrives.start("t.dlq", None, 10)
        with pytest.raises(RedriveRunning):
            await broker.redrives.start("t.dlq")
        await asyncio.sleep(2)
        done = await broker.redrives.cancel(task.id)
        assert done.state == "cancelled" and 18 <= done.moved <= 22
        assert len(await letters(broker)) == 100 - done.moved
        assert await broker.redrives.cancel(task.id) == done, "it is over"
        with pytest.raises(UnknownRedrive):
            await broker.redrives.cancel("nothing")

    async def later(broker: Broker) -> None:
        (known,) = broker.redrives.tasks("t.dlq")
        assert known.state == "cancelled"
        task = await over(broker, await broker.redrives.start("t.dlq"))
        assert task.moved + known.moved == 100
        assert [one.id for one in broker.redrives.tasks("t.dlq")] == [task.id, known.id]
        assert sorted((await values(broker, "t"))[100:], key=int) == [str(n) for n in range(100)]

    with_broker(scenario, disk)
    with_broker(later, disk)


def test_what_is_asked_wrongly_is_refused() -> None:
    async def scenario(broker: Broker) -> None:
        await bury(broker, numbered(1))
        for wrong, error in [
            ({"to": "t.dlq"}, InvalidField),
            ({"to": "nowhere"}, UnknownTopic),
            ({"to": delivery_runner.DELIVERIES_TOPIC}, InternalTopic),
            ({"rate_per_s": 0}, InvalidField),
            ({"limit": 0}, InvalidField),
        ]:
            with pytest.raises(error):
                await broker.redrives.start("t.dlq", **wrong)  # type: ignore[arg-type]
        with pytest.raises(UnknownTopic):
            await broker.letters.page("t.dlq", EVERYTHING, None, 1)
        with pytest.raises(InvalidGroup):
            await broker.leasing.take(Take(KEEPER, [at("t.dlq")], "w", 1))
        assert broker.redrives.tasks("t.dlq") == []

    with_broker(scenario)


def test_a_topic_without_dead_letters_has_none() -> None:
    async def scenario(broker: Broker) -> None:
        assert await letters(broker) == []
        assert (await broker.letters.stats("t")).total == 0
        assert (await broker.redrives.preview(RedriveRequest("t.dlq"))).matched == 0
        assert (await over(broker, await broker.redrives.start("t.dlq"))).state == "completed"

    with_broker(scenario)


def test_queue_consumers_of_the_dead_letters_do_not_get_what_is_gone() -> None:
    async def scenario(broker: Broker) -> None:
        await bury(broker, numbered(6))
        (first,) = await take(broker, "t.dlq", 1, "sqs")
        await broker.leasing.ack([first.receipt])
        (held,) = await take(broker, "t.dlq", 1, "sqs")
        await broker.letters.delete("t", 0, 4)
        assert [one.offset for one in await letters(broker)] == [1, 2, 3, 5], "what SQS deleted is gone"
        task = await over(broker, await broker.redrives.start("t.dlq", limit=2))
        assert (task.moved, task.skipped) == (2, {"in-flight": 1})
        assert [one.stored.offset for one in await take(broker, "t.dlq", group="sqs")] == [5]
        assert [one.stored.offset for one in await take(broker, "t.dlq", group="other")] == [0, 1, 5]
        assert await broker.leasing.ack([held.receipt]) == [None]

    with_broker(scenario)


def test_a_queue_whose_letters_were_all_redriven_counts_none() -> None:
    async def scenario(broker: Broker) -> None:
        await bury(broker, numbered(600))
        (held,) = await take(broker, "t.dlq", 1, "sqs")
        await broker.leasing.ack([held.receipt])
        assert (await over(broker, await broker.redrives.start("t.dlq"))).moved == 599
        assert broker.leasing.counts("sqs", "t.dlq").ready == 0

    with_broker(scenario)


@pytest.mark.parametrize("after_s", [0.95, 0.99, 1.0, 1.001, 1.01])  # some of them while a letter is on its way
def test_the_dead_letter_topic_is_deleted_under_a_redrive(after_s: float) -> None:
    async def scenario(broker: Broker) -> None:
        await bury(broker, numbered(50))
        task = await broker.redrives.start("t.dlq", None, 10)
        await asyncio.sleep(after_s)
        await broker.topics.delete("t.dlq")
        done = await over(broker, task)
        assert done.state == "failed" and "deleted" in done.failure
        await bury(broker, numbered(2))
        assert (await over(broker, await broker.redrives.start("t.dlq"))).moved == done.moved + 2

    with_broker(scenario)


def test_the_target_is_deleted_under_a_redrive() -> None:
    async def scenario(broker: Broker) -> None:
        await broker.topics.create("u", 1, {})
        await bury(broker, numbered(50))
        task = await broker.redrives.start("t.dlq", "u", 10)
        await asyncio.sleep(1)
        await broker.topics.delete("u")
        done = await over(broker, task)
        assert done.state == "failed" and "deleted" in done.failure
        assert 0 < done.moved <= done.matched < 50, "it does not go through what is left"
        assert len(await letters(broker)) == 50 - done.moved
        assert (await over(broker, await broker.redrives.start("t.dlq"))).moved == 50 - done.moved

    with_broker(scenario)


def test_a_redrive_goes_on_after_a_restart_and_a_checkpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delivery_runner, "CHECKPOINT_BYTES", 2_000)
    disk = SimDisk()

    async def scenario(broker: Broker) -> None:
        await bury(broker, numbered(300))
        await broker.redrives.start("t.dlq", None, 100)
        await asyncio.sleep(1.5)

    async def later(broker: Broker) -> None:
        (task,) = broker.redrives.tasks("t.dlq")
        assert task.state == "running" and 130 <= task.moved <= 160
        task = await over(broker, task)
        assert (task.state, task.moved, task.looked_at) == ("completed", 300, 300)
        assert sorted((await values(broker, "t"))[300:], key=int) == [str(n) for n in range(300)]
        assert await letters(broker) == []
        assert all(one.group != KEEPER for one in broker.groups.list())

    with_broker(scenario, disk)
    with_broker(later, disk)


def test_what_the_target_refuses_stays_and_what_it_took_is_not_doubled(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = SimDisk()

    async def scenario(broker: Broker) -> None:
        await bury(broker, [InputMessage(None, b"%d" % n + b"." * 400_000) for n in range(6)])
        append, calls = broker.publish.append, 0

        def refusing(command: PublishBatch) -> Appended:
            nonlocal calls
            calls += command.at.topic == "t"
            if command.at.topic == "t" and calls == 2:
                raise CorruptBatch("refused")
            return append(command)

        monkeypatch.setattr(broker.publish, "append", refusing)
        task = await over(broker, await broker.redrives.start("t.dlq"))
        assert (task.state, task.moved, task.failed, task.failure) == ("completed", 2, 4, "refused")
        assert [one.offset for one in await letters(broker)] == [2, 3, 4, 5]

    async def later(broker: Broker) -> None:
        assert [one.offset for one in await letters(broker)] == [2, 3, 4, 5]
        assert (await over(broker, await broker.redrives.start("t.dlq"))).moved == 4
        assert [value[0] for value in await values(broker, "t")] == list("012345012345")

    with_broker(scenario, disk)
    with_broker(later, disk)


def test_letters_neither_expire_nor_wait_for_delays_that_their_headers_ask_for() -> None:
    async def scenario(broker: Broker) -> None:
        await broker.topics.alter("t", {"queue.delay.headers": "false", "queue.max.failures": 1}, None)
        expiry = b"%d" % (broker.clock.now_ms() + 60_000)
        headers = (("a", b"1"), ("goqueue-expires-at", expiry), ("goqueue-delay", b"1h"), ("z", None))
        batch = build([NewRecord(None, b"v", headers, broker.clock.now_ms())])
        await broker.publish.batch(PublishBatch(at("t"), batch))
        await reject_all(broker)
        (letter,) = await letters(broker)
        assert letter.headers == headers
        await broker.topics.alter("t", {"queue.delay.headers": "true"}, None)
        assert (await over(broker, await broker.redrives.start("t.dlq"))).moved == 1
        assert (await fetch_all(broker, "t", 0))[1].headers[:4] == headers, "its time to live goes on"
        await reject_all(broker)
        await asyncio.sleep(120)
        assert len(await take(broker, "t.dlq", group="sqs")) == 1, "the dead have all the time"
        (letter,) = await letters(broker)
        assert letter.headers[:4] == headers

    with_broker(scenario)
