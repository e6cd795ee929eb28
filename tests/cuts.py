"""Where a simulated disk is cut: everywhere on demand, here and there otherwise; each cut is a whole life."""

from __future__ import annotations

import os
from typing import Final

STRIDE: Final = 1 if "GOQUEUE_LONG_TESTS" in os.environ else 7
