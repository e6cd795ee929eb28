"""What nodes of a cluster can do that older ones cannot. A feature is switched on when all nodes know it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

NEAREST_REPLICA: Final = "nearest-replica"  # followers answer consumers, who are sent there by leaders

KNOWN: Final[Mapping[str, int]] = {NEAREST_REPLICA: 1}  # the level of each that this version knows
