"""How rows of a table are replaced by others."""

from __future__ import annotations

import msgspec


class MergeRule(msgspec.Struct, frozen=True):
    """Which row takes another's place: by `keys`, the newer by `order`; one that `delete_when` is true of deletes."""

    keys: list[str]
    order: str | None = None
    delete_when: str | None = None
