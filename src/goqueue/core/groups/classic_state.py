"""The states of a classic group, the moves between them, and what it waits for."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Final


class ClassicState(enum.Enum):
    """A classic group's states, under Kafka's names. A deleted group is simply not there."""

    EMPTY = "Empty"
    PREPARING = "PreparingRebalance"
    COMPLETING = "CompletingRebalance"
    STABLE = "Stable"


# From each state, where a group may go. Stable to stable is a static member under a new id.
MOVES: Final[Mapping[ClassicState, tuple[ClassicState, ...]]] = {
    ClassicState.EMPTY: (ClassicState.PREPARING, ClassicState.EMPTY),
    ClassicState.PREPARING: (ClassicState.COMPLETING, ClassicState.EMPTY),
    ClassicState.COMPLETING: (ClassicState.STABLE, ClassicState.PREPARING),
    ClassicState.STABLE: (ClassicState.PREPARING, ClassicState.STABLE),
}

JOIN: Final = ("join", "")
SYNC: Final = ("sync", "")


def session(member_id: str) -> tuple[str, str]:
    return ("session", member_id)
