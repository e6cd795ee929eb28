"""How large a regular expression becomes when its repetitions are written out: what matching a character may cost."""

from __future__ import annotations

import re
from typing import Final

_TOKEN: Final = re.compile(
    r"\\[pP]\{[^}]*\}|\\.|\[(?:\\.|[^\]\\])*+\]?|\{[0-9]*,?[0-9]*\}|\(\?[a-zA-Z<=!:-]*|.", re.DOTALL
)
_COUNTED: Final = re.compile(r"\{([0-9]*)(,?)([0-9]*)\}")
_WIDE: Final = 8  # states of a class of Unicode characters, on their UTF-8 bytes
_STATES_MAX: Final = 10**9


def regex_states(pattern: str) -> int:
    """An upper estimate. The engine's own bound refuses what is far too large before it is ever run."""
    groups: list[tuple[int, int]] = []  # what stood before a group, and the atom before that
    total = last = 0
    for found in _TOKEN.finditer(pattern):
        token = found[0]
        counted = _COUNTED.fullmatch(token)
        if token.startswith("("):
            groups.append((total, last))
            total = last = 0
        elif token == ")":
            inner = total + 1
            total, last = groups.pop() if groups else (0, 0)
            total, last = total + inner, inner
        elif counted is not None and last:
            times = max(int(text[:6]) for text in (counted[1] or "0", counted[3] or "0")) or 1
            total, last = total + last * (times - 1), last * times
        elif token not in "*+?|^$":
            last = _WIDE if token[:2] in ("\\p", "\\P") or not token.isascii() else 1
            total += last
        if total > _STATES_MAX:
            return _STATES_MAX
    return total + sum(before for before, _ in groups) + 1
