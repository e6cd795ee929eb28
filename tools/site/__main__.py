"""`python -m tools.site`: writes the drawings under `docs/` and builds the site; with `drawings` only those."""

from __future__ import annotations

import sys

from tools.site.build import ROOT, build
from tools.site.drawings import drawings

if __name__ == "__main__":
    for name, text in drawings().items():
        (ROOT / "docs/drawings" / name).write_text(text)
    if sys.argv[1:] != ["drawings"]:
        build()
