"""How far a partition may be read."""

from __future__ import annotations

import pytest

from goqueue.base.commands import Acks, Isolation
from goqueue.base.errors import NotEnoughReplicas
from goqueue.core.partition import PartitionState


def test_readers_follow_the_end_of_the_log() -> None:
    state = PartitionState(10, reads_wait_for_sync=False)
    assert state.high_watermark == 10
    assert state.appended(15) and state.high_watermark == 15
    assert not state.synced(15)


def test_readers_wait_for_the_sync_where_answers_do() -> None:
    state = PartitionState(10, reads_wait_for_sync=True)
    assert not state.appended(15) and state.high_watermark == 10
    assert state.synced(12) and state.read_limit(Isolation.READ_COMMITTED) == 12
    assert not state.synced(11), "a mark never goes back"
    assert state.high_watermark == 12


def test_a_cut_log_takes_the_mark_along() -> None:
    state = PartitionState(10, reads_wait_for_sync=False)
    state.truncated(4)
    assert (state.end_offset, state.high_watermark) == (4, 4)


def test_only_acks_all_asks_for_replicas() -> None:
    state = PartitionState(0, reads_wait_for_sync=False)
    state.check_acks(Acks.ALL, 1)
    state.check_acks(Acks.LEADER, 2)
    with pytest.raises(NotEnoughReplicas):
        state.check_acks(Acks.ALL, 2)
