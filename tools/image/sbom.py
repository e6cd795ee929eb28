"""What is in the image, as a CycloneDX bill of materials."""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib.metadata import distributions
from pathlib import Path


def bill_of_materials(debian: Sequence[tuple[str, str]], packages: Path) -> bytes:
    found = sorted({(one.metadata["Name"], one.version) for one in distributions(path=[str(packages)])})
    parts = [_part("deb/debian", name, version) for name, version in debian]
    parts += [_part("pypi", name, version) for name, version in found]
    bill = {"bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1, "components": parts}
    return json.dumps(bill, indent=1).encode()


def _part(kind: str, name: str, version: str) -> dict[str, str]:
    return {"type": "library", "name": name, "version": version, "purl": f"pkg:{kind}/{name.lower()}@{version}"}
