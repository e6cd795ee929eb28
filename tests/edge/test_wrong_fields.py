"""How a body that does not fit its type is answered."""

from __future__ import annotations

import msgspec
import pytest

from goqueue.api.cluster import MoveIn
from goqueue.base.errors import InvalidField
from goqueue.edge.rest.requests import decode, number


@pytest.mark.parametrize("body", [{"rebalance": True, "by": "x" * 100_000}, {"y" * 100_000: 1}])
def test_what_was_given_is_not_told_again_at_length(body: dict[str, object]) -> None:
    with pytest.raises(InvalidField) as refused:
        decode(msgspec.json.encode(body), MoveIn)
    assert len(refused.value.message) < 500 and len(refused.value.field or "") < 500
    assert "…" in refused.value.message


@pytest.mark.parametrize("text", ["", "x", "1.0", "+1", "-1", "100", "\u0661", "9" * 30])
def test_a_number_is_written_with_the_digits_that_everybody_has(text: str) -> None:
    with pytest.raises(InvalidField, match="shard is a whole number from 0 to 99"):
        number(text, "shard", 0, 99)
    assert number("7", "shard", 0, 99) == 7
