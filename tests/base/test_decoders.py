"""Types are learned by one thread at a time."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

SOURCES = Path(__file__).parents[2] / "src/goqueue"
SCRIPT = """
import sys, threading
from typing import Any
import msgspec
from goqueue.base.decoders import converted, from_json, from_msgpack

sys.setswitchinterval(1e-6)
DATA = {"a": {"x": 1, "y": "z"}, "b": [{"x": 1, "y": "z"}], "c": {}, "d": [1], "e": None}
JSON, PACKED = msgspec.json.encode(DATA), msgspec.msgpack.encode(DATA)
for number in range(300):
    names: dict[str, Any] = {}
    exec(f'''
import msgspec
class Inner{number}(msgspec.Struct):
    x: int
    y: "str"
class Outer{number}(msgspec.Struct):
    a: Inner{number}
    b: list[Inner{number}]
    c: dict[str, Inner{number}]
    d: tuple[int, ...]
    e: int | None
''', names)
    kind = names[f"Outer{number}"]
    ways = [lambda: from_json(JSON, kind), lambda: from_msgpack(PACKED, kind), lambda: converted(DATA, kind)]
    start = threading.Barrier(6)
    threads = [threading.Thread(target=lambda way=way: (start.wait(), way())) for way in ways * 2]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
"""


def test_threads_that_meet_a_type_for_the_first_time_at_once_do_not_crash() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=250)
    assert done.returncode == 0, done.stderr


def test_nothing_else_lets_a_type_be_learned_while_threads_run() -> None:
    for path in SOURCES.rglob("*.py"):
        if path.parts[-2:] not in (("base", "decoders.py"), ("base", "settings.py")):
            assert not re.search(r"msgspec\.convert\(|\.decode\([^\n]*\btype=", path.read_text()), path
