"""The history that the log tells, and that a wrong one would be noticed."""

from __future__ import annotations

import httpx

from bench.node_process import NodeProcess
from tests.door.test_rest_transactions import Shop, new_topic
from tests.txn.checker import Kind, check, kinds
from tests.txn.history import FINAL, Outcome
from tests.txn.log_history import history_of


def test_the_log_tells_what_became_of_each_message(node: NodeProcess) -> None:
    with httpx.Client(base_url=node.url, timeout=40) as http:
        topic, shop = new_topic(http), Shop(http)
        for end, count in (("commit", 2), ("abort", 3), ("commit", 1)):
            shop.does("begin")
            shop.does("publish", topic=topic, messages=[{"value": "v"} for _ in range(count)])
            shop.does(end)
        http.post(f"/topics/{topic}/messages", json={"messages": [{"value": "v"}]}).raise_for_status()
    history = history_of(node.url, [topic])
    assert (history.count(Outcome.COMMITTED), history.count(Outcome.ABORTED)) == (4, 3)
    assert len(history.final) == 4 and check(history) == []
    aborted = next(one for one in history.writes if history.outcomes[one.txn] is Outcome.ABORTED)
    assert aborted.offset is not None
    history.polled(FINAL, [(aborted.partition, aborted.offset, aborted.value)])
    assert Kind.ABORTED_READ in kinds(history)
    history.reads = [one for one in history.reads if one.offset]
    assert Kind.LOST in kinds(history)
