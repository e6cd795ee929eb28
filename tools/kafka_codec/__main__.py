"""`python -m tools.kafka_codec [directory]`: write the generated modules, by default over the checked-in ones."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tools.kafka_codec.model import APIS, snake
from tools.kafka_codec.module import module, table

ROOT = Path(__file__).parents[2]


def generate(target: Path) -> list[Path]:
    """The files written, formatted the way the project is."""
    texts = {f"{snake(name)}.py": module(name) for name in APIS} | {"table.py": table(APIS)}
    for name, text in texts.items():
        (target / name).write_text(text)
    paths = [target / name for name in sorted(texts)]
    for step in (["check", "--quiet", "--fix", "--select", "I"], ["format", "--quiet"]):
        command = [sys.executable, "-m", "ruff", *step, "--config", str(ROOT / "pyproject.toml"), *map(str, paths)]
        subprocess.run(command, check=True, cwd=ROOT)
    return paths


if __name__ == "__main__":
    generate(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "src/goqueue/wire/messages")
