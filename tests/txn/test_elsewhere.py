"""The coordinator is elsewhere: what partitions ask it is sent as bytes and takes its time."""

from __future__ import annotations

import asyncio

import pytest

from goqueue.base.commands import InputMessage
from goqueue.base.encoding import decode, encode
from goqueue.broker import Broker
from goqueue.core.txn.errors import ProducerFenced
from goqueue.core.txn.questions import EpochSeen, IsOpen, MayWrite, OpenAnswer, ProducerActive, WriteAnswer
from goqueue.service.txn_partitions import TransactionWrites
from goqueue.service.txn_publish import PublishInTransaction, TopicMessages
from goqueue.service.txn_questions import CoordinatorQuestions
from goqueue.sim.disk import SimDisk
from tests.txn.checker import check
from tests.txn.history import History, Outcome
from tests.txn.lives import Watch
from tests.txn.test_planted_bugs import STORIES, Lives
from tests.txn.world import TOPIC, Client, live, read_to_the_end, refused, stuck, transactional_batch


class Distance:
    """Between partitions and the coordinator."""

    def __init__(self) -> None:
        self.asked: list[MayWrite] = []
        self.answered = asyncio.Event()  # an answer is on its way back
        self.is_far = False  # it gets there when the test says so
        self.arrives = asyncio.Event()


@pytest.fixture
def distance(monkeypatch: pytest.MonkeyPatch) -> Distance:
    between = Distance()
    at_once, is_open = CoordinatorQuestions.may_write_now, CoordinatorQuestions.is_open
    active, epoch_seen = CoordinatorQuestions.active, CoordinatorQuestions.epoch_seen

    async def may_write(self: CoordinatorQuestions, asked: MayWrite) -> WriteAnswer:
        between.asked.append(asked)
        await asyncio.sleep(0.003)
        answer = encode(at_once(self, decode(encode(asked), MayWrite)))
        between.answered.set()
        if between.is_far:
            await between.arrives.wait()
        return decode(answer, WriteAnswer)

    async def seen(self: CoordinatorQuestions, note: EpochSeen) -> bool:
        await asyncio.sleep(0.003)
        return await epoch_seen(self, decode(encode(note), EpochSeen))

    def open_there(self: CoordinatorQuestions, asked: IsOpen) -> OpenAnswer:
        return decode(encode(is_open(self, decode(encode(asked), IsOpen))), OpenAnswer)

    def heard(self: CoordinatorQuestions, note: ProducerActive) -> None:
        active(self, decode(encode(note), ProducerActive))

    monkeypatch.setattr(CoordinatorQuestions, "may_write_now", lambda self, asked: None)
    monkeypatch.setattr(CoordinatorQuestions, "may_write", may_write)
    monkeypatch.setattr(CoordinatorQuestions, "epoch_seen", seen)
    monkeypatch.setattr(CoordinatorQuestions, "is_open", open_there)
    monkeypatch.setattr(CoordinatorQuestions, "active", heard)
    return between


@pytest.mark.parametrize("lives", STORIES, ids=lambda one: one.__name__)
def test_every_story_is_as_flawless_as_with_the_coordinator_here(lives: Lives, distance: Distance) -> None:
    history = History()
    lives(SimDisk(), history)
    assert check(history) == []
    assert history.final and distance.asked


def test_a_partition_asks_once_for_each_transaction(distance: Distance) -> None:
    async def story(broker: Broker, history: History) -> None:
        client = Client(broker, history)
        await client.init()
        for turn in range(2):
            client.begin()
            await client.add(0, 1)
            for number in range(4):
                await client.write(number % 2, f"{turn}.{number}", add=False)
            await client.commit()
        assert [one.partition for one in distance.asked] == [0, 1, 0, 1]
        await read_to_the_end(broker, history)

    history = History()
    assert not live(SimDisk(), story, history)
    assert check(history) == []


def test_publishes_over_rest_wait_for_the_answer(distance: Distance) -> None:
    async def story(broker: Broker, history: History) -> None:
        state = await broker.transactions.init("r", 5_000)
        who = ("r", state.producer_id, state.epoch)
        await broker.transactions.begin(*who)
        messages = [InputMessage(None, b"v", partition=number) for number in range(2)]
        for _ in range(2):
            await broker.txn_publish.publish(PublishInTransaction(*who, [TopicMessages(TOPIC, messages)]))
        await broker.transactions.end(*who, commit=True)
        assert [one.partition for one in distance.asked] == [0, 1]
        assert stuck(broker) == []

    assert not live(SimDisk(), story, History())


def overtaken(distance: Distance) -> History:
    """A batch is asked for; before the answer is back, its transaction commits, and its epoch stays the producer's."""

    async def story(broker: Broker, history: History) -> None:
        client = Client(broker, history)
        await client.init()
        client.begin()
        await client.add(0)
        batch = transactional_batch(["late"], client.producer_id, client.epoch, 0)
        distance.is_far = True
        writing = asyncio.ensure_future(refused(client.send(0, batch)))
        await distance.answered.wait()
        await client.commit()  # the marker gets there first
        distance.is_far = False
        distance.arrives.set()
        assert await writing, "stored"
        assert len(distance.asked) == 2, "asked again"
        assert stuck(broker) == []
        await read_to_the_end(broker, history)

    history = History()
    assert not live(SimDisk(), story, history)
    return history


def test_an_answer_that_a_marker_overtook_lets_nobody_in(distance: Distance) -> None:
    """The batch would belong to no transaction, and hold readers back for ever."""
    assert check(overtaken(distance)) == []


def test_without_the_care_it_would(monkeypatch: pytest.MonkeyPatch, distance: Distance, watched_lives: Watch) -> None:
    monkeypatch.setattr(TransactionWrites, "ended", lambda *_: None)
    with pytest.raises(AssertionError, match="stored"):
        overtaken(distance)
    watched_lives.forget()


def test_who_is_refused_is_told_the_coordinators_own_word(distance: Distance) -> None:
    async def story(broker: Broker, history: History) -> None:
        old, new = Client(broker, history), Client(broker, history)
        await old.init()
        await new.init()
        old.begin()
        with pytest.raises(ProducerFenced, match="took its place"):
            await old.write(0, "v", add=False)
        history.ended(old.txn, Outcome.ABORTED)
        assert distance.asked == [MayWrite(old.producer_id, old.epoch, TOPIC, 0)]
        assert broker.publish._hooks.transactions._learned == {}  # type: ignore[union-attr]

    assert not live(SimDisk(), story, History())
