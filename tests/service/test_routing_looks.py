"""Looking at what several nodes keep, and changing it, through any of them."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from goqueue.base.commands import Browse, InputMessage
from goqueue.base.errors import OffsetOutOfRange, RedriveRunning, UnknownDeadLetter, UnknownRedrive, UnknownTrace
from goqueue.base.leases import Take
from goqueue.base.settings import TraceSettings
from goqueue.core.audit_lines import AuditLine
from goqueue.core.dead_letter import EVERYTHING
from goqueue.core.redrive import RedriveRequest
from goqueue.core.traces.span import TraceFilter
from goqueue.core.txn.errors import UnknownTransaction
from goqueue.service.browse import Browsing
from goqueue.service.dead_letter_view import DeadLetterView
from goqueue.service.dead_letters import Redrives
from tests.service.brokers import settings
from tests.service.nodes import SHARD_COUNT, Nodes, nodes_story, send, to


def browsing(nodes: Nodes, node: int) -> Browsing:
    return nodes.brokers[node].routed(nodes.brokers[node].browsing)


def letters(nodes: Nodes, node: int) -> DeadLetterView:
    return nodes.brokers[node].routed(nodes.brokers[node].letters)


def redrives(nodes: Nodes, node: int) -> Redrives:
    return nodes.brokers[node].routed(nodes.brokers[node].redrives)


async def fill(nodes: Nodes, each: int = 2) -> None:
    for place in range(each):
        for number in range(SHARD_COUNT):
            await send(nodes.brokers[0], "t", to(number, f"{place}-{number}"))
            await asyncio.sleep(0.01)


# --- the audit log ----------------------------------------------------------------------------------------


def test_lines_of_all_audit_logs_are_read_through_any_node(tmp_path: Path) -> None:
    async def story(nodes: Nodes) -> None:
        trails = []
        for number, broker in enumerate(nodes.brokers):
            file = tmp_path / str(number)
            lines = [AuditLine(f"2026-01-0{day}T00:00:00.00{number}Z", "change", f"u{number}") for day in (1, 2)]
            file.write_bytes(b"".join(msgspec.json.encode(one) + b"\n" for one in lines))
            broker.audit_trail._path = "" if number == 2 else str(file)
            trails.append(broker.routed(broker.audit_trail))
        for trail in trails:
            page = await trail.page(10)
            assert [(one.node, one.user, one.time[8:10]) for one in page.lines] == [
                (1, "u1", "02"),
                (0, "u0", "02"),
                (1, "u1", "01"),
                (0, "u0", "01"),
            ]
            assert (page.is_kept, page.silent) == (True, [])
            assert [one.node for one in (await trail.page(1)).lines] == [1]
            assert [one.node for one in (await trail.page(10, user="u0")).lines] == [0, 0]

    nodes_story(story)


def test_a_node_that_does_not_answer_is_named_beside_the_lines_of_the_others(tmp_path: Path) -> None:
    async def story(nodes: Nodes) -> None:
        (tmp_path / "log").write_bytes(msgspec.json.encode(AuditLine("2026-01-01T00:00:00Z", "change")) + b"\n")
        for broker in nodes.brokers:
            broker.audit_trail._path = str(tmp_path / "log")
        nodes.gone.add(2)
        page = await nodes.brokers[0].routed(nodes.brokers[0].audit_trail).page(10)
        assert ([one.node for one in page.lines], page.silent) == ([0, 1], [2])

    nodes_story(story)


# --- pages ------------------------------------------------------------------------------------------------


def test_pages_of_all_partitions_are_merged_by_time_through_any_node() -> None:
    async def story(nodes: Nodes) -> None:
        await fill(nodes)
        for node in range(3):
            places = await browsing(nodes, node).offsets_from("t", "earliest")
            assert places == dict.fromkeys(range(SHARD_COUNT), 0)
            seen: list[str] = []
            while True:
                page = await browsing(nodes, node).read(Browse("t", places, 5))
                seen += [(one.value or b"").decode() for one in page.messages]
                if not page.messages:
                    break
                places = page.next_offsets
            assert seen == [f"{place}-{number}" for place in range(2) for number in range(SHARD_COUNT)]
            assert places == await browsing(nodes, node).offsets_from("t", "latest")
            assert await browsing(nodes, node).high_watermark("t", 3) == 2  # type: ignore[misc]

    nodes_story(story)


def test_a_page_that_waits_has_what_comes_first_at_any_node() -> None:
    async def story(nodes: Nodes) -> None:
        places = dict.fromkeys(range(SHARD_COUNT), 0)
        for number in range(SHARD_COUNT):
            reading = asyncio.ensure_future(browsing(nodes, 0).read(Browse("t", places, 5, wait_ms_max=20_000)))
            await asyncio.sleep(1)
            assert not reading.done()
            await send(nodes.brokers[1], "t", to(number, str(number)))
            page = await asyncio.wait_for(reading, 1)
            assert [one.value for one in page.messages] == [str(number).encode()]
            places = page.next_offsets
        assert (await browsing(nodes, 0).read(Browse("t", places, 5, wait_ms_max=2_000))).messages == []

    nodes_story(story)


def test_an_offset_that_is_not_there_is_told_if_nothing_else_is() -> None:
    async def story(nodes: Nodes) -> None:
        await send(nodes.brokers[0], "t", to(0, "a"))
        beyond = {0: 0, 1: 99}
        page = await browsing(nodes, 2).read(Browse("t", beyond, 5))
        assert len(page.messages) == 1 and page.next_offsets == {0: 1, 1: 99}
        with pytest.raises(OffsetOutOfRange):
            await browsing(nodes, 2).read(Browse("t", page.next_offsets, 5))

    nodes_story(story)


# --- dead letters -----------------------------------------------------------------------------------------


async def bury(nodes: Nodes, each: int = 2) -> None:
    """So many dead letters in every partition."""
    await nodes.create("t.dlq", SHARD_COUNT)
    for number, broker in enumerate(nodes.brokers):
        for at in nodes.led_by(number, "t.dlq"):
            for place in range(each):
                await send(
                    broker, "t.dlq", InputMessage(None, f"{at.partition}-{place}".encode(), partition=at.partition)
                )


def test_dead_letters_are_listed_counted_shown_and_deleted_wherever_they_lie() -> None:
    async def story(nodes: Nodes) -> None:
        await bury(nodes)
        for node in range(3):
            found, begin = [], None
            while True:
                page = await letters(nodes, node).page("t", EVERYTHING, begin, 5)
                assert len(page.letters) <= 5
                found += page.letters
                begin = page.next
                if begin is None:
                    break
            assert [(one.partition, one.offset) for one in found] == [
                (number, place) for number in range(SHARD_COUNT) for place in range(2)
            ]
            assert (await letters(nodes, node).stats("t")).total == 2 * SHARD_COUNT
            assert (await letters(nodes, node).show("t", 3, 1)).value == b"3-1"
        await letters(nodes, 0).delete("t", 3, 1)
        for node in range(3):
            with pytest.raises(UnknownDeadLetter):
                await letters(nodes, node).show("t", 3, 1)
            assert (await letters(nodes, node).stats("t")).total == 2 * SHARD_COUNT - 1

    nodes_story(story)


async def over(nodes: Nodes, task_id: str) -> tuple[str, int]:
    async with asyncio.timeout(60):
        while True:
            task = await redrives(nodes, 1).find(task_id)  # type: ignore[misc]
            if not task.is_live:
                return task.state, task.moved
            await asyncio.sleep(0.1)


@pytest.mark.parametrize("limit", [None, 5])
def test_a_redrive_moves_the_letters_of_every_node_under_one_id(limit: int | None) -> None:
    async def story(nodes: Nodes) -> None:
        await bury(nodes)
        await nodes.create("back", SHARD_COUNT)
        asked = RedriveRequest("t.dlq", "back", limit=limit)
        for node in range(3):
            assert (await redrives(nodes, node).preview(asked)).movable == (limit or 2 * SHARD_COUNT)
        task = await redrives(nodes, 0).start("t.dlq", "back", limit=limit)
        assert await over(nodes, task.id) == ("completed", limit or 2 * SHARD_COUNT)
        for node in range(3):
            (known,) = await redrives(nodes, node).tasks("t.dlq")  # type: ignore[misc]
            assert (known.id, known.moved, known.state) == (task.id, limit or 2 * SHARD_COUNT, "completed")
        left = await letters(nodes, 2).stats("t")
        assert left.total == 2 * SHARD_COUNT - (limit or 2 * SHARD_COUNT)

    nodes_story(story, is_strict=False)


def test_a_redrive_is_one_for_all_nodes_and_any_of_them_cancels_it() -> None:
    async def story(nodes: Nodes) -> None:
        await bury(nodes)
        await nodes.create("back", SHARD_COUNT)
        task = await redrives(nodes, 0).start("t.dlq", "back", rate_per_s=1)
        assert (task.rate_per_s, task.nodes) == (1, 3), "shared by the nodes, and not that of each"
        with pytest.raises(RedriveRunning):
            await redrives(nodes, 2).start("t.dlq", "back")
        assert not (await redrives(nodes, 1).cancel(task.id)).is_live
        state, moved = await over(nodes, task.id)
        assert state == "cancelled" and moved < 2 * SHARD_COUNT
        with pytest.raises(UnknownRedrive):
            await redrives(nodes, 1).find("nothing")  # type: ignore[misc]

    nodes_story(story, is_strict=False)


# --- topics -----------------------------------------------------------------------------------------------


def test_what_topics_hold_is_told_by_their_leaders() -> None:
    async def story(nodes: Nodes) -> None:
        await fill(nodes)
        for node in range(3):
            topics = nodes.brokers[node].routed(nodes.brokers[node].topics)
            described = await topics.describe("t")  # type: ignore[misc]
            assert [one.high_watermark for one in described.partitions] == [2] * SHARD_COUNT
            assert described.messages == 2 * SHARD_COUNT
        nodes.gone.add(1)
        described = await nodes.brokers[0].routed(nodes.brokers[0].topics).describe("t")  # type: ignore[misc]
        assert described.messages == 8, "what is known here"

    nodes_story(story)


# --- numbers ----------------------------------------------------------------------------------------------


def test_the_numbers_of_queues_are_summed_over_nodes() -> None:
    async def story(nodes: Nodes) -> None:
        await fill(nodes)
        leasing = nodes.brokers[0].routed(nodes.brokers[0].leasing)
        for _ in range(3):
            taken = await leasing.take(Take("q", tuple(nodes.places("t")), "me", 3))
            assert await leasing.ack([one.receipt for one in taken[:1]]) == [None]
        for broker in nodes.brokers:
            stats = broker.routed(broker.queue_stats)
            await stats.look()
            (found,) = await stats.reliability("q", "t")  # type: ignore[misc]
            assert found.acked == 3
            assert found.ready + found.in_flight + found.acked == 2 * SHARD_COUNT
            lanes = await stats.lanes("q")
            assert [one.partition for one in lanes] == sorted(one.partition for one in lanes)

    nodes_story(story)


# --- transactions -----------------------------------------------------------------------------------------


def test_producers_and_owners_are_found_at_any_node() -> None:
    async def story(nodes: Nodes) -> None:
        for node, broker in enumerate(nodes.brokers):
            transactions = broker.routed(broker.transactions)
            names = [nodes.name_at(home, f"tx{node}-") for home in range(3)]
            for name in names:
                state = await transactions.init(name, 60_000)
                assert await transactions.name_of(state.producer_id) == name  # type: ignore[misc]
                beaten = await transactions.beat(state.producer_id, state.epoch)  # type: ignore[misc]
                assert beaten.transactional_id == name
                described = await transactions.describe(name)  # type: ignore[misc]
                assert described.producer_id == state.producer_id
            known = [one.transactional_id for one in await transactions.all()]  # type: ignore[misc]
            assert set(names) <= set(known) and known == sorted(known)
            with pytest.raises(UnknownTransaction):
                await transactions.name_of(10**12)  # type: ignore[misc]

    nodes_story(story)


# --- traces -----------------------------------------------------------------------------------------------


def test_a_trace_is_put_together_from_the_nodes_where_something_happened() -> None:
    chosen = replace(settings(), traces=TraceSettings(sample_rate=1.0, files_max=0))

    async def story(nodes: Nodes) -> None:
        await fill(nodes, each=1)
        leasing = nodes.brokers[0].routed(nodes.brokers[0].leasing)
        while taken := await leasing.take(Take("q", tuple(nodes.places("t")), "me", 100)):
            assert await leasing.ack([one.receipt for one in taken]) == [None] * len(taken)
        for node in range(3):
            traces = nodes.brokers[node].routed(nodes.brokers[node].traces)
            found = await traces.newest(100)
            assert sorted(one.spans[0].partition for one in found) == list(range(SHARD_COUNT))
            for one in await traces.search(TraceFilter(topic="t", partition=3), 10):
                assert (await traces.show(one.trace_id)).spans == one.spans
                assert one.status == "completed"
            nodes.gone.add((node + 1) % 3)
            assert len(await traces.newest(100)) == 4, "what a node knew that is gone is left out"
            nodes.gone.clear()
            with pytest.raises(UnknownTrace):
                await traces.show("0" * 32)

    nodes_story(story, chosen=chosen)
