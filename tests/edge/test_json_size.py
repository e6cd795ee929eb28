"""Elements of JSON are counted as the decoder would find them."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.edge.http import json_size

VALUES = st.recursive(
    st.none() | st.integers() | st.text(alphabet=',"\\\\a\n'),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(alphabet=',"\\\\b'), inner),
)


def commas(value: Any) -> int:
    """Those that separate."""
    if isinstance(value, dict):
        return max(0, len(value) - 1) + sum(map(commas, value.values()))
    if isinstance(value, list):
        return max(0, len(value) - 1) + sum(map(commas, value))
    return 0


@pytest.mark.parametrize("stretch", [1, 2, 3, 7, 1000])
@given(value=VALUES)
def test_only_commas_that_separate_count_wherever_a_stretch_ends(value: Any, stretch: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_size, "_STRETCH_BYTES", stretch)
        assert asyncio.run(json_size._elements(json.dumps(value).encode())) == commas(value)
