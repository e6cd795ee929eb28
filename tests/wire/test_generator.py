"""The checked-in codec is what the generator writes."""

from __future__ import annotations

from pathlib import Path

import goqueue.wire
from tools.kafka_codec.__main__ import generate

BY_HAND = {"__init__.py", "api.py", "errors.py", "framer.py", "primitives.py", "shape.py"}


def test_generating_again_changes_nothing(tmp_path: Path) -> None:
    kept = Path(goqueue.wire.__path__[0])
    made = {path.name: path.read_text() for path in generate(tmp_path)}
    assert made == {path.name: path.read_text() for path in kept.glob("*.py") if path.name not in BY_HAND}
