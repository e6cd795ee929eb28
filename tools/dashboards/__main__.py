"""`python -m tools.dashboards`: writes what is generated under `deploy/`."""

from __future__ import annotations

from pathlib import Path

from tools.dashboards.files import files

if __name__ == "__main__":
    root = Path(__file__).parents[2] / "deploy"
    for name, text in files().items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
