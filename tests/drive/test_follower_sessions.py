"""Fetches between nodes name only logs that moved; if anything is out of order, all of them again."""

from __future__ import annotations

from goqueue.base.replication import LogKey, ShardAnswer, ShardFetch
from goqueue.core.cluster.records import ShardRecord
from goqueue.core.replication.leader import InSyncRule, Replica, ShardLeader
from goqueue.drive.leading_shard import HeardFetch, LeadingShard
from goqueue.drive.replica_fetches import FollowedShard
from goqueue.format.batch import read_header
from goqueue.log.appending import RollRule
from goqueue.log.recovery import open_log
from goqueue.sim.disk import SimDisk
from tests.drive.replicas import SmallLog
from tests.log.logs import batch, home, sync

KEYS = [LogKey("t", number) for number in range(4)]
BY = Replica(1, "1.1")
BYTES = 1 << 20


class Pair:
    """A leader and a follower of one shard, without a network."""

    def __init__(self, leads: list[LogKey], follows: list[LogKey]) -> None:
        record = ShardRecord(0, 1, (0, 1), (0, 1), starts={0: "0.1", 1: "1.1"})
        self.machine = ShardLeader(Replica(0, "0.1"), record, 1, InSyncRule(False, 1_000, 1_000), 0)
        self.theirs = {key: small_log(key) for key in leads}
        self.ours = {key: small_log(key) for key in follows}
        self.leading = LeadingShard(self.machine, self.theirs.values())
        self.followed = FollowedShard(0, 1, self.ours.values())
        self.now = 0

    def hear(self, asked: ShardFetch, by: Replica = BY) -> HeardFetch:
        self.now += 1
        return self.leading.hear(by, asked, self.now)

    def fetch(self) -> tuple[ShardFetch, ShardAnswer]:
        asked = self.followed.ask()
        answer = self.hear(asked).answer(BYTES)
        if not answer.refusal:
            self.followed.take(asked, answer)
        return asked, answer

    def append(self, key: LogKey, value: str = "v", epoch: int = 1) -> None:
        data = batch(value)
        self.theirs[key].log.append(data, read_header(data), epoch, 1_000)
        self.leading.appended(key)


def small_log(key: LogKey) -> SmallLog:
    return SmallLog(key, open_log(home(SimDisk(), f"logs/t/{key.partition}"), RollRule(2_048, 1 << 40))[0])


def settled(leads: list[LogKey], follows: list[LogKey]) -> Pair:
    pair = Pair(leads, follows)
    for key in leads:
        pair.append(key)
    for _ in range(3):
        pair.fetch()
    return pair


def test_the_first_fetch_names_all_logs_and_later_ones_those_that_moved() -> None:
    pair = Pair(KEYS, KEYS)
    asked, _ = pair.fetch()
    assert [place.log for place in asked.logs] == KEYS
    pair.append(KEYS[2])
    asked, answer = pair.fetch()
    assert asked.logs == [] and [one.log for one in answer.logs] == [KEYS[2]]
    asked, answer = pair.fetch()
    assert [(place.log, place.end) for place in asked.logs] == [(KEYS[2], 1)]
    assert pair.theirs[KEYS[2]].high_watermark == 1
    assert [(one.log, one.high_watermark) for one in answer.logs] == [(KEYS[2], 1)]
    asked, answer = pair.fetch()
    assert not pair.hear(pair.followed.ask()).has_news(), "everything was told"


def test_a_log_that_the_follower_has_first_is_fetched_when_the_leader_has_it() -> None:
    pair = settled(KEYS[:1], KEYS[:2])
    waiting = pair.hear(pair.followed.ask())
    assert not waiting.has_news()
    pair.theirs[KEYS[1]] = small_log(KEYS[1])
    pair.leading.open(pair.theirs[KEYS[1]])
    assert waiting.has_news() and waiting.answer(BYTES).refusal == "unknown_session"
    pair.append(KEYS[1])
    for _ in range(2):
        pair.fetch()
    assert pair.ours[KEYS[1]].end_offset == 1 and pair.theirs[KEYS[1]].high_watermark == 1


def test_a_log_that_the_leader_has_first_is_fetched_when_the_follower_has_it() -> None:
    pair = settled(KEYS[:2], KEYS[:1])
    waiting = pair.hear(pair.followed.ask())
    assert not waiting.has_news(), "the follower cannot take it yet"
    pair.ours[KEYS[1]] = small_log(KEYS[1])
    pair.followed.keep(pair.ours.values())
    for _ in range(2):
        pair.fetch()
    assert pair.ours[KEYS[1]].end_offset == 1 and pair.theirs[KEYS[1]].high_watermark == 1


def test_an_answer_to_what_was_asked_before_the_logs_changed_does_not_hide_the_new_one() -> None:
    pair = settled(KEYS[:2], KEYS[:1])
    asked = pair.followed.ask()
    answer = pair.hear(asked).answer(BYTES)
    pair.ours[KEYS[1]] = small_log(KEYS[1])
    pair.followed.keep(pair.ours.values())
    pair.followed.take(asked, answer)
    assert [place.log for place in pair.followed.ask().logs] == KEYS[:2]


def test_after_an_answer_that_was_lost_all_logs_are_named_and_nothing_is_missed() -> None:
    pair = settled(KEYS, KEYS)
    pair.append(KEYS[3])
    lost = pair.hear(pair.followed.ask()).answer(BYTES)
    assert [one.log for one in lost.logs] == [KEYS[3]]
    asked, _ = pair.fetch()
    assert not asked.session and [place.log for place in asked.logs] == KEYS
    pair.fetch()
    assert pair.ours[KEYS[3]].end_offset == 2 and pair.theirs[KEYS[3]].high_watermark == 2


def test_a_fetch_that_comes_late_ends_the_session_rather_than_take_the_follower_back() -> None:
    pair = settled(KEYS[:1], KEYS[:1])
    late = pair.followed.ask()
    pair.fetch()
    pair.append(KEYS[0])
    waiting = pair.hear(pair.followed.ask())
    assert pair.hear(late).answer(BYTES).refusal == "unknown_session"
    assert waiting.answer(BYTES).refusal == "unknown_session"
    for _ in range(2):
        pair.fetch()
    assert pair.ours[KEYS[0]].end_offset == 2 and pair.theirs[KEYS[0]].high_watermark == 2


def test_another_start_of_the_follower_is_not_where_the_one_before_was() -> None:
    pair = settled(KEYS[:1], KEYS[:1])
    asked = pair.followed.ask()
    assert pair.hear(asked, Replica(1, "1.2")).answer(BYTES).refusal == "unknown_session"


def test_a_log_that_was_cut_is_named_again() -> None:
    pair = Pair(KEYS[:2], KEYS[:2])
    data = batch("of an epoch that the leader does not know")
    pair.ours[KEYS[0]].log.append(data, read_header(data), 0, 1_000)
    pair.append(KEYS[0], "of this one")
    asked, answer = pair.fetch()
    assert answer.logs[0].parting is not None and pair.ours[KEYS[0]].end_offset == 0
    asked, _ = pair.fetch()
    assert [(place.log, place.end) for place in asked.logs] == [(KEYS[0], 0)]
    pair.fetch()
    assert pair.ours[KEYS[0]].values(1) == ["of this one"] and pair.theirs[KEYS[0]].high_watermark == 1


def test_a_topic_that_is_made_again_is_another_log() -> None:
    pair, again = settled(KEYS[:1], KEYS[:1]), LogKey("again", 0)
    pair.theirs, pair.ours = {again: small_log(again)}, {again: small_log(again)}
    pair.leading.close(KEYS[0])
    pair.leading.open(pair.theirs[again])
    assert pair.fetch()[1].refusal == "unknown_session", "the follower has not heard of it"
    pair.fetch()
    pair.followed.keep(pair.ours.values())
    pair.append(again)
    for _ in range(2):
        pair.fetch()
    assert pair.ours[again].end_offset == 1 and pair.theirs[again].high_watermark == 1


def test_what_is_on_the_disk_later_is_told_later() -> None:
    pair = settled(KEYS[:2], KEYS[:2])
    log = pair.ours[KEYS[1]]
    assert log.synced_offset < log.end_offset
    assert pair.fetch()[0].logs == []
    sync(log.log)
    asked, _ = pair.fetch()
    assert [(place.log, place.safe) for place in asked.logs] == [(KEYS[1], 1)]


def test_many_logs_that_are_behind_have_their_turn() -> None:
    pair = Pair(KEYS, KEYS)
    for key in KEYS:
        for _ in range(5):
            pair.append(key)
    for _ in range(4 * 5 + 1):
        asked = pair.followed.ask()
        answer = pair.hear(asked).answer(1)
        assert sum(bool(one.batches) for one in answer.logs) <= 1
        pair.followed.take(asked, answer)
    assert {log.end_offset for log in pair.ours.values()} == {5}


def test_where_a_log_begins_is_told_when_it_moves() -> None:
    pair = settled(KEYS[:2], KEYS[:2])
    pair.theirs[KEYS[0]].log.begin_drop_head(1).run()
    pair.leading.wanted({0: "0.1", 1: "1.1"}, pair.now)
    _, answer = pair.fetch()
    assert [(one.log, one.start) for one in answer.logs] == [(KEYS[0], 1)]


def settled_behind_the_leaders_start(counts: bool) -> Pair:
    """The follower holds nothing and begins at 4, as an earlier leader's log did; the leader has everything from 2."""
    pair = Pair(KEYS[:1], KEYS[:1])
    if not counts:
        pair.machine.confirmed(ShardRecord(0, 1, (0, 1), (0,), starts={0: "0.1"}), 2)
    pair.theirs[KEYS[0]].log.begin_anew(2)
    pair.ours[KEYS[0]].begin_anew(4)
    for number in range(2, 6):
        pair.append(KEYS[0], f"v{number}")
    for _ in range(3):
        pair.fetch()
        assert pair.followed.failure is None
    return pair


def test_an_empty_log_of_who_counts_goes_on_where_it_is() -> None:
    ours = settled_behind_the_leaders_start(counts=True).ours[KEYS[0]]
    assert ours.start_offset == 4, "it counted as having everything up to there, and goes on doing so"
    assert ours.values(6) == ["v4", "v5"]


def test_an_empty_log_of_who_does_not_count_begins_anew() -> None:
    pair = settled_behind_the_leaders_start(counts=False)
    ours = pair.ours[KEYS[0]]
    assert (ours.start_offset, ours.values(6)) == (2, ["v2", "v3", "v4", "v5"])
    assert pair.machine.ends_of(1)[KEYS[0]] == 6


def test_who_goes_on_in_an_epoch_does_so_in_all_of_it() -> None:
    pair = Pair(KEYS[:1], KEYS[:1])
    pair.theirs[KEYS[0]].log.begin_anew(2)
    pair.ours[KEYS[0]].begin_anew(4)
    pair.append(KEYS[0])
    pair.append(KEYS[0])
    asked = pair.followed.ask()
    heard = pair.hear(asked)
    pair.machine.confirmed(ShardRecord(0, 1, (0, 1), (0,), starts={0: "0.1"}), 2)
    pair.append(KEYS[0], "v4")
    pair.followed.take(asked, heard.answer(BYTES))
    pair.fetch()
    assert pair.ours[KEYS[0]].start_offset == 4, "the leader has noted that it was there"
    assert pair.ours[KEYS[0]].values(5) == ["v4"]


def test_who_counted_and_was_started_again_goes_on_before_its_new_start_counts() -> None:
    pair = Pair(KEYS[:1], KEYS[:1])
    pair.theirs[KEYS[0]].log.begin_anew(2)
    pair.ours[KEYS[0]].begin_anew(4)
    pair.append(KEYS[0])
    pair.append(KEYS[0])
    (told,) = pair.hear(pair.followed.ask(), Replica(1, "1.2")).answer(BYTES).logs
    assert told.parting is None, "it must not go back behind what it counts for"


def test_nothing_is_noted_as_deleted_that_is_not_here_yet() -> None:
    pair = Pair(KEYS[:1], KEYS[:1])
    for number in range(6):
        pair.append(KEYS[0], f"v{number}" + "x" * 1_000)
    pair.theirs[KEYS[0]].note_deleted(5)
    asked = pair.followed.ask()
    pair.followed.take(asked, pair.hear(asked).answer(2_000))
    ours = pair.ours[KEYS[0]]
    assert 0 < ours.deleted_to == ours.end_offset < 5
    for _ in range(6):
        pair.fetch()
    assert (ours.end_offset, ours.deleted_to) == (6, 5)
    ours.cut(3)  # somebody else leads, who has less
    assert ours.deleted_to == 3


def test_an_epoch_of_which_nothing_is_left_does_not_part_for_ever() -> None:
    pair = Pair(KEYS[:1], KEYS[:1])
    ours = pair.ours[KEYS[0]]
    for number in range(3):
        data = batch(f"gone{number}")
        ours.log.append(data, read_header(data), 2, 1_000)
    ours.log.begin_drop_head(3)  # deleted, and an epoch is noted that has no batch any more
    for number in range(5):
        pair.append(KEYS[0], f"v{number}")
    for _ in range(5):
        pair.fetch()
    assert ours.end_offset == 5 and pair.theirs[KEYS[0]].high_watermark == 5


def test_a_log_of_which_nothing_is_the_leaders_begins_where_the_leaders_does() -> None:
    pair = Pair(KEYS[:1], KEYS[:1])
    for number in range(3):
        pair.append(KEYS[0], f"v{number}")
    ours = pair.ours[KEYS[0]]
    ours.begin_anew(50)  # as after an election of somebody who had less
    data = batch("other")
    ours.log.append(data, read_header(data), 3, 1_000)
    ours.note_deleted(50)
    pair.append(KEYS[0], "v3", epoch=4)
    for _ in range(4):
        pair.fetch()
        assert pair.followed.failure is None
    assert ours.values(4) == ["v0", "v1", "v2", "v3"]
    assert ours.deleted_to == 0, "that was said of another history"


def follower_of_another_history(counts: bool) -> Pair:
    """Both end at 2 in their own way; the leader goes on with a batch from 1 to 3, and all before 2 is deleted."""
    pair = Pair(KEYS[:1], KEYS[:1])
    if not counts:
        pair.machine.confirmed(ShardRecord(0, 1, (0, 1), (0,), starts={0: "0.1"}), 2)
    theirs, ours = pair.theirs[KEYS[0]], pair.ours[KEYS[0]]
    for epoch, log, values in ((1, theirs, ("a",)), (1, theirs, ("b", "c", "d")), (0, ours, ("x",)), (0, ours, ("y",))):
        data = batch(*values)
        log.log.append(data, read_header(data), epoch, 1_000)
    theirs.log.begin_drop_head(2).run()
    pair.leading.appended(KEYS[0])
    return pair


def test_who_ends_where_the_leader_begins_and_may_have_another_history_begins_anew() -> None:
    pair = follower_of_another_history(counts=False)
    for _ in range(4):
        pair.fetch()
        assert pair.followed.failure is None
    ours = pair.ours[KEYS[0]]
    assert (ours.start_offset, ours.end_offset) == (2, 4)
    assert ours.read_tail(2, BYTES) == pair.theirs[KEYS[0]].read_tail(2, BYTES)
    assert not ours.log.segments[0].damage and pair.machine.ends_of(1)[KEYS[0]] == 4


def test_who_counts_goes_on_where_the_leader_begins() -> None:
    pair = follower_of_another_history(counts=True)
    _, answer = pair.fetch()
    assert answer.logs[0].parting is None, "it has had everything, and must not go back"
