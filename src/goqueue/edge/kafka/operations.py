"""What a caller may do (KIP-430): everything, as bits, one for each of Kafka's operations, where nobody is refused."""

from __future__ import annotations

from typing import Final

TOPIC: Final = 0x0DF8
CLUSTER: Final = 0x1FA0
GROUP: Final = 0x0D48
_UNSAID: Final = -(1 << 31)


def told(operations: int, is_asked: bool) -> int:
    return operations if is_asked else _UNSAID
