"""Read, transform and write on in transactions over three real nodes, while nodes and clients are killed: each input is
there exactly once. The coordinators, the group and the partitions of a transaction are at different nodes."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest
from confluent_kafka import IsolationLevel, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from bench.cluster_process import ClusterProcess
from tests.cluster.clients import make_topic
from tests.door.kafka.raw import unique
from tests.txn.checker import check
from tests.txn.history import History
from tests.txn.test_exactly_once import PARTITIONS, WORKERS, Feed, Team, Watch, read_at_last
from tests.txn.worker import TIMEOUT_MS, Job
from tests.waiting import has_come, let_pass

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("cluster"), pytest.mark.timeout(600)]
KILLS = ("node", "client", "node")


def ends(cluster: ClusterProcess, topic: str, isolation: IsolationLevel) -> list[int]:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    asked = {TopicPartition(topic, number): OffsetSpec.latest() for number in range(PARTITIONS)}
    return [one.result(60).offset for one in admin.list_offsets(asked, isolation_level=isolation).values()]


def wreak_havoc(cluster: ClusterProcess, team: Team, chance: random.Random) -> None:
    for kind in KILLS:
        let_pass(chance.uniform(0.5, 1.5))
        if kind == "client":
            team.kill(chance.randrange(WORKERS))
        else:
            victim = chance.randrange(3)
            cluster.kill(victim)
            let_pass(chance.uniform(0.5, 2.0))
            cluster.start(victim)
            cluster.wait_whole()
        team.replace_dead()


@pytest.mark.parametrize("kind", ["confluent", "aiokafka"])
def test_each_input_is_there_exactly_once(cluster: ClusterProcess, tmp_path: Path, kind: str) -> None:
    seed = random.randrange(1 << 30)
    source, target = make_topic(cluster, PARTITIONS), make_topic(cluster, PARTITIONS)
    history, stop = History(), str(tmp_path / "stop")
    job = Job(cluster.bootstrap, source, target, PARTITIONS, unique("g"), "", 0, "", stop)
    team = Team(kind, job, tmp_path)
    feed, watch = Feed(cluster.bootstrap, source), Watch(cluster.bootstrap, target, history)
    feed.start()
    watch.start()
    for number in range(WORKERS):
        team.start(number)
    try:
        assert has_come(lambda: len(watch.numbers) > 100, 120), "the work is under way"
        wreak_havoc(cluster, team, random.Random(seed))
        feed.stopped.set()
        feed.join()

        def all_there() -> bool:
            team.replace_dead()
            return len(watch.numbers) >= feed.count

        drained = has_come(all_there, 180)
        codes = team.finish()
        levels = (IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED)
        stable = has_come(
            lambda: len({tuple(ends(cluster, target, one)) for one in levels}) == 1, TIMEOUT_MS / 1000 + 60
        )
        read_at_last(cluster.bootstrap, target, history)
    finally:
        feed.stopped.set()
        watch.stopped.set()
        team.finish()
        watch.join()
    notes = team.tell(history)
    seen = Counter(int(one.value.partition(":")[0]) for one in history.final)
    missing = [number for number in range(feed.count) if number not in seen]
    twice = {number: count for number, count in seen.items() if count > 1}
    print(f"\n{kind}, seed {seed}: {feed.count} inputs, {len(history.final)} outputs, {team.replaced} workers replaced")
    print("\n".join(notes[-40:]))
    assert feed.errors == []
    assert (missing[:20], twice) == ([], {}), f"{len(missing)} missing"
    assert drained and stable
    assert list(map(str, check(history)[:20])) == []
    assert codes == [0] * WORKERS
