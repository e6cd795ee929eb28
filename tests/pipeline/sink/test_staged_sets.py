"""How the node's staged sets are asked: again where that may help, and not where it cannot."""

from __future__ import annotations

import pytest

from goqueue.client.staged import StagedWriterId
from goqueue.pipeline.sink.staged_sets import SinkRefused, StagedSetClient
from tests.pipeline.sink.proxies import Answer, Porter, proxy

NOWHERE = "http://127.0.0.1:9"
WRITERS = [StagedWriterId("staged/q/0/0", 4, 1)]
DONE = (200, b'{"outcome": "committed", "dropped": 0}')


def _telling(*answers: Answer) -> tuple[Porter, list[str]]:
    asked: list[str] = []

    def porter(method: str, path: str, _: object) -> Answer:
        asked.append(f"{method} {path}")
        return answers[min(len(asked), len(answers)) - 1]

    return porter, asked


def _problem(code: str) -> bytes:
    return b'{"code": "%b", "detail": "It is so."}' % code.encode()


def test_what_passes_is_asked_again() -> None:
    porter, asked = _telling((503, _problem("starting")), (503, _problem("concurrent-transactions")), DONE)
    with proxy(NOWHERE, porter) as url:
        assert StagedSetClient(lambda: url).commit("q", 7, WRITERS).outcome == "committed"
    assert asked == ["POST /staged/q/7/commit"] * 3


def test_a_refusal_is_told_at_once() -> None:
    porter, asked = _telling((409, _problem("staged-conflict")))
    with proxy(NOWHERE, porter) as url, pytest.raises(SinkRefused, match=r"It is so\. \(staged-conflict"):
        StagedSetClient(lambda: url).commit("q", 7, WRITERS)
    assert len(asked) == 1


def test_patience_ends() -> None:
    with pytest.raises(SinkRefused, match="Cannot reach"):
        StagedSetClient(lambda: NOWHERE, patience_s=0.2).abort("q", 7)
