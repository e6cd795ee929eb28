"""Whether the long forms of tests run: every cut, seed and kill. The short ones take some, and others for each case."""

from __future__ import annotations

import os
from typing import Final

LONG: Final = os.environ.get("GOQUEUE_LONG_TESTS") == "1"
