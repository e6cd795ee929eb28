"""Files of several nodes are of one moment only if nobody went on before all were held."""

from __future__ import annotations

import pytest

from goqueue.service.cluster_backups import OneMoment


@pytest.mark.parametrize(
    ("held", "read", "answered", "is_one"),
    [
        pytest.param(0.1, 0.2, 0.35, True, id="held before this node did, and still when all was read"),
        pytest.param(0.1, 0.2, 0.45, False, id="it may have held its files after this node did"),
        pytest.param(0.1, 0.31, 0.35, False, id="it may have gone on before the metadata was read"),
        pytest.param(0.4, 0.5, 0.35, False, id="this node was too late"),
    ],
)
def test_a_moment_is_one_by_the_clock_of_who_asks(held: float, read: float, answered: float, is_one: bool) -> None:
    assert OneMoment(asked=0.0, still_s=0.3, held=held, read=read).has(answered) is is_one
