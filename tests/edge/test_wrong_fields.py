"""How a body that does not fit its type is answered."""

from __future__ import annotations

import msgspec
import pytest

from goqueue.api.cluster import MoveIn
from goqueue.base.errors import InvalidField
from goqueue.edge.rest.requests import decode


@pytest.mark.parametrize("body", [{"rebalance": True, "by": "x" * 100_000}, {"y" * 100_000: 1}])
def test_what_was_given_is_not_told_again_at_length(body: dict[str, object]) -> None:
    with pytest.raises(InvalidField) as refused:
        decode(msgspec.json.encode(body), MoveIn)
    assert len(refused.value.message) < 500 and len(refused.value.field or "") < 500
    assert "…" in refused.value.message
