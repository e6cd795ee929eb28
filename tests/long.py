"""Whether the long forms of tests run: every cut, seed and kill. The short ones take some, and others for each case."""

from __future__ import annotations

import os
from typing import Final

import pytest

LONG: Final = os.environ.get("GOQUEUE_LONG_TESTS") == "1"
only_long: Final = pytest.mark.skipif(not LONG, reason="runs with GOQUEUE_LONG_TESTS=1")
