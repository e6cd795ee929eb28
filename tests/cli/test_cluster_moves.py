"""What `goqueue cluster moves` and `status` say of moves and of versions."""

from __future__ import annotations

import pytest

from goqueue.api.cluster import ClusterFeature, ClusterHealth, ClusterState, CopyProgress, ShardMove, moves_out
from goqueue.base.limits import GIB, MIB
from goqueue.cli.cluster_moves import _per_second, _progress, _row
from goqueue.cli.cluster_show import show_status
from goqueue.cli.failures import Misused


def move(shard: int, **copies: CopyProgress) -> ShardMove:
    held = {int(node[1:]): copy for node, copy in copies.items()}
    return ShardMove(shard, [0, 1], [0, 2], dict.fromkeys(held, 0.5), 2 * GIB, held)


def test_a_move_says_how_much_is_left_how_fast_it_is_and_how_long_it_takes() -> None:
    one = move(3, n2=CopyProgress(GIB, GIB, 50 * MIB, 20.5))
    assert _row(one) == (3, "0,1", "0,2", "2.0 GiB", "node 2 (50%, 1.0 GiB to copy, 50.0 MiB/s, 20 s left)")
    assert _row(move(4))[-1] == "the controller"
    assert _row(move(5, n2=CopyProgress(0, 0, 0, None)))[-1] == "node 2 (0 B to copy)"


def test_all_moves_together_take_as_long_as_the_longest() -> None:
    quick, slow = CopyProgress(0, 100 * MIB, 10 * MIB, 10.0), CopyProgress(0, 900 * MIB, 10 * MIB, 90.0)
    told = moves_out([move(1, n2=quick), move(2, n2=slow)], 0)
    assert (told.bytes_left, told.bytes_per_s, told.seconds_left) == (1000 * MIB, 20 * MIB, 90.0)
    assert _progress(told) == "2 shards moving, 1,000 MiB to copy, 20.0 MiB/s, 90 s left"
    waiting = moves_out([move(1, n2=quick), move(2, n2=CopyProgress(0, 5, 0, None))], 0)
    assert waiting.seconds_left is None, "one has not begun"
    assert moves_out([], 7).throttle == 7


@pytest.mark.parametrize(("size", "words"), [("-5", "not a size"), ("9999999TiB", "more than can be asked for")])
def test_a_throttle_that_is_none_is_wrong_usage(size: str, words: str) -> None:
    with pytest.raises(Misused, match=words):
        _per_second(size)
    assert (_per_second("off"), _per_second("1MiB")) == (0, MIB)


def test_the_status_says_which_features_are_on_and_what_they_wait_for(capsys: pytest.CaptureFixture[str]) -> None:
    features = [ClusterFeature("nearest-replica", 1, []), ClusterFeature("other", 0, [1, 2])]
    state = ClusterState("c", 0, 0, 7, "ok", [], [], features)
    show_status(state, ClusterHealth("ok", "c", 1, 0, 0, 0, 0, 0, 0, []))
    assert "features    nearest-replica 1; other off, waits for nodes 1,2\n" in capsys.readouterr().out
