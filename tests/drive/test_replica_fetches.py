"""Logs that follow another node's: caught up, cut where histories part, and counted when they are safe."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from goqueue.sim.disk import SimDisk
from goqueue.sim.time import VirtualLoop, run_virtually
from tests.drive.replicas import LAG_MS, SmallCluster


def run(scenario: Callable[[SmallCluster], Awaitable[None]]) -> None:
    async def main(loop: VirtualLoop) -> None:
        cluster = SmallCluster(loop)
        for node in cluster.nodes:
            node.start()
        cluster.elect()
        await cluster.settle()
        try:
            await scenario(cluster)
        finally:
            for node in cluster.nodes:
                await node.crash(power_cut=False)

    run_virtually(main)


def test_followers_have_the_same_bytes_and_readers_go_as_far_as_all_have_them() -> None:
    async def scenario(cluster: SmallCluster) -> None:
        leader = cluster.leader
        for number in range(40):
            leader.append(cluster.keys[number % 2], f"value {number}")
        assert leader.logs[cluster.keys[0]].high_watermark == 0, "nobody has it yet"
        await cluster.settle()
        for key in cluster.keys:
            logs = [node.logs[key] for node in cluster.nodes]
            assert [log.end_offset for log in logs] == [20] * 3
            assert logs[cluster.record.leader].high_watermark == 20
            assert len({log.read_tail(0, 1 << 20) for log in logs}) == 1
            assert {log.last_epoch for log in logs} == {cluster.record.epoch}

    run(scenario)


def test_a_follower_that_is_cut_off_holds_readers_back_until_it_is_out_and_comes_back_by_itself() -> None:
    async def scenario(cluster: SmallCluster) -> None:
        leader, key = cluster.leader, cluster.keys[0]
        away = next(node.number for node in cluster.nodes if node is not leader)
        cluster.cut_off = {frozenset((away, other.number)) for other in cluster.nodes}
        leader.append(key, "while one is away")
        await cluster.settle(LAG_MS / 1000 / 2)
        assert leader.logs[key].high_watermark == 0 and away in cluster.record.in_sync
        await cluster.settle(LAG_MS / 1000 + 1)
        assert away not in cluster.record.in_sync
        assert leader.logs[key].high_watermark == 1
        cluster.cut_off.clear()
        await cluster.settle(2)
        assert away in cluster.record.in_sync
        assert cluster.nodes[away].logs[key].values(1) == ["while one is away"]

    run(scenario)


def test_with_too_few_in_sync_nothing_is_read_and_who_fell_out_may_lead() -> None:
    async def scenario(cluster: SmallCluster) -> None:
        leader, key = cluster.leader, cluster.keys[0]
        others = [node for node in cluster.nodes if node is not leader]
        leader.append(key, "all have it")
        await cluster.settle()
        cluster.cut_off = {frozenset((leader.number, other.number)) for other in others}
        leader.append(key, "nobody else has it")
        await cluster.settle(2 * LAG_MS / 1000)
        assert cluster.record.in_sync == (leader.number,) and cluster.record.eligible
        assert leader.logs[key].high_watermark == 1, "one alone acknowledges nothing"
        await leader.crash(power_cut=False)
        del cluster.living[leader.number]
        cluster.elect()
        cluster.cut_off.clear()
        assert cluster.leader in others
        await cluster.settle()
        cluster.leader.append(key, "in its place")
        leader.start()
        await cluster.settle(2)
        assert sorted(cluster.record.in_sync) == [0, 1, 2]
        for node in cluster.nodes:
            assert node.logs[key].values(2) == ["all have it", "in its place"]

    run(scenario)


def test_a_tail_that_was_never_acknowledged_is_cut_where_the_histories_part() -> None:
    async def scenario(cluster: SmallCluster) -> None:
        first, key = cluster.leader, cluster.keys[0]
        first.append(key, "a")
        await cluster.settle()
        cluster.cut_off = {frozenset((first.number, other.number)) for other in cluster.nodes}
        for number in range(5):
            first.append(key, f"lost {number}")
        first.sync()
        del cluster.living[first.number]  # its session is over, though it lives
        cluster.elect()
        second = cluster.leader
        assert second is not first
        await second.look()
        second.append(key, "b")
        cluster.register(first.number, type(cluster.living[second.number])("", first.me.start, disk="disk"))
        cluster.cut_off.clear()
        await cluster.settle(2)
        assert [node.logs[key].values(2) for node in cluster.nodes] == [["a", "b"]] * 3
        assert sorted(cluster.record.in_sync) == [0, 1, 2]

    run(scenario)


def test_power_cuts_and_elections_lose_nothing_that_was_acknowledged() -> None:
    def rounds(seed: int) -> Callable[[VirtualLoop], Awaitable[None]]:
        async def main(loop: VirtualLoop) -> None:
            cluster = SmallCluster(loop, seed)
            for node in cluster.nodes:
                node.start()
            await _live_through_faults(cluster)

        return main

    for seed in range(25):
        run_virtually(rounds(seed))  # type: ignore[arg-type]


async def _live_through_faults(cluster: SmallCluster) -> None:
    """Whoever leads appends; what is below its high watermark while two are in sync is acknowledged."""
    acknowledged: dict[tuple[int, int], str] = {}
    count = 0
    for _ in range(40):
        move = cluster.random.random()
        victim = cluster.random.choice(cluster.nodes)
        if move < 0.15 and victim.is_up and sum(node.is_up for node in cluster.nodes) > 2:
            await victim.crash(power_cut=cluster.random.random() < 0.7)
            cluster.living.pop(victim.number)
        elif move < 0.35 and not victim.is_up:
            victim.start()
        elif move < 0.45:
            cluster.cut_off = {frozenset(cluster.random.sample(range(3), 2))}
        elif move < 0.6:
            cluster.cut_off.clear()
        cluster.elect()
        await cluster.settle(cluster.random.choice((0.1, 0.5, 4)))
        leader = cluster.leader
        if leader.is_up and leader.leads:
            for number, key in enumerate(cluster.keys):
                count += 1
                leader.append(key, f"value {count}")
                log = leader.logs[key]
                for offset, value in enumerate(log.values(log.high_watermark)):
                    assert acknowledged.setdefault((number, offset), value) == value
                wanted = [value for (one, _), value in sorted(acknowledged.items()) if one == number]
                assert log.values(log.end_offset)[: len(wanted)] == wanted, "something is gone"
    cluster.cut_off.clear()
    for node in cluster.nodes:
        if not node.is_up:
            node.start()
    for _ in range(3):
        cluster.elect()
        await cluster.settle(5)
    for number, key in enumerate(cluster.keys):
        wanted = [value for (one, _), value in sorted(acknowledged.items()) if one == number]
        for node in cluster.nodes:
            assert node.logs[key].values(len(wanted)) == wanted
        assert len({node.logs[key].read_tail(0, 1 << 20) for node in cluster.nodes}) == 1
    for node in cluster.nodes:
        await node.crash(power_cut=False)
    await asyncio.sleep(1)


def test_a_replica_that_lost_its_disk_begins_where_the_leader_does() -> None:
    async def scenario(cluster: SmallCluster) -> None:
        leader, key = cluster.leader, cluster.keys[0]
        for number in range(40):
            leader.append(key, f"value {number}")
        await cluster.settle(1)
        leader.logs[key].log.begin_drop_head(25).run()
        lost = next(node for node in cluster.nodes if node is not leader)
        await lost.crash(power_cut=False)
        lost.disk = SimDisk()
        lost.start()
        await cluster.settle(2)
        log = lost.logs[key]
        assert (log.start_offset, log.end_offset) == (25, 40)
        leader.append(key, "one more")
        await cluster.settle(1)
        assert log.values(41)[-1] == "one more"

    run(scenario)


def test_a_log_that_cannot_be_written_holds_no_other_up() -> None:
    async def scenario(cluster: SmallCluster) -> None:
        leader, (bad, good) = cluster.leader, cluster.keys
        follower = next(node for node in cluster.nodes if node is not leader)
        follower.logs[bad].log.fail(OSError("the disk is broken there"))
        leader.append(bad, "first")
        leader.append(good, "second")
        await cluster.settle()
        assert (follower.logs[bad].end_offset, follower.logs[good].end_offset) == (0, 1)
        leader.append(good, "third")
        await cluster.settle()
        assert follower.logs[good].values(2) == ["second", "third"]
        await cluster.settle(2 * LAG_MS / 1000)
        assert follower.number not in cluster.record.in_sync, "it does not count with what it lacks"

    run(scenario)
