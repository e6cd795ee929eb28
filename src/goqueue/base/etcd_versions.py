"""Which versions of etcd can be trusted: earlier ones lose events of watches, or end leases wrongly."""

from __future__ import annotations

import re
from typing import Final

NEEDED: Final = "3.5.28, 3.6.9 or a newer version is needed"
_VERSION: Final = re.compile(r"(\d+)\.(\d+)\.(\d+)")
_PATCH_MIN: Final = {(3, 5): 28, (3, 6): 9}


def has_known_faults(version: str) -> bool:
    """Also of a text that names no version."""
    found = _VERSION.match(version)
    major, minor, patch = map(int, found.groups()) if found else (0, 0, 0)
    return (major, minor) < (3, 5) or patch < _PATCH_MIN.get((major, minor), 0)
