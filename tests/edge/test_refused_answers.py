"""What is told where every receipt of one call was refused."""

from __future__ import annotations

import json

from goqueue.base.errors import NotLeader, StaleReceipt
from goqueue.edge.rest.answers import told


def test_receipts_of_which_nothing_is_known_are_not_told_to_be_over() -> None:
    answer = told(["a", "b"], [StaleReceipt("It is over."), NotLeader("Nobody leads it.")])
    assert (answer.status_code, json.loads(bytes(answer.body))["code"]) == (503, "not-leader")
    over = told(["a", "b"], [StaleReceipt("It is over."), StaleReceipt("So is this.")])
    assert (over.status_code, json.loads(bytes(over.body))["detail"]) == (409, "It is over.")
