from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from goqueue.client.replies import Group, GroupLag
from goqueue.pipeline.analytics.lag import lag_rows, sample
from goqueue.pipeline.running import Run


def test_one_row_for_each_group_and_partition() -> None:
    lags = [GroupLag("orders", 0, 3, 10, 7), GroupLag("mails", 1, None, 4, 4)]
    now = datetime(2026, 1, 31, 12, tzinfo=UTC)
    rows = lag_rows([Group("packers", "consumer", "Stable", 1, "", "partition", [], lags)], (), now).to_pylist()
    assert [(row["group"], row["topic"], row["partition"], row["committed"], row["lag"]) for row in rows] == [
        ("packers", "orders", 0, 3, 7),
        ("packers", "mails", 1, None, 4),
    ]
    assert {row["time"] for row in rows} == {now}
    assert (
        lag_rows([Group("packers", "consumer", "Stable", 1, "", "partition", [], lags)], ("mails",), now).num_rows == 1
    )


def test_without_a_node_it_says_why_there_is_no_sample(tmp_path: Path) -> None:
    count, why = sample(Run(None, None, (), str(tmp_path)))
    assert (count, why is not None and "--url" in why) == (0, True)
    assert not any(tmp_path.iterdir())
