"""`python -m tools.image FILE`: builds the container image on Debian 12, from Debian's and Python's packages alone."""

from __future__ import annotations

import platform
import sys
import tempfile
from pathlib import Path
from typing import Final

from goqueue import __version__
from tools.image.oci import image_archive, layer
from tools.image.root import PACKAGES, UID, CannotBuild, debian_root, packages_root
from tools.image.sbom import bill_of_materials

_ALIVE: Final = "import urllib.request as r; r.urlopen('http://127.0.0.1:8080/livez', timeout=2)"
SETTINGS: Final = {
    "User": f"{UID}:{UID}",
    "Entrypoint": ["/usr/local/bin/goqueue"],
    "Cmd": ["serve"],
    "WorkingDir": "/data",
    "Env": ["PATH=/usr/local/bin:/usr/bin", "GOQUEUE_DATA_DIR=/data", "LANG=C.UTF-8", "PYTHONUNBUFFERED=1"],
    "ExposedPorts": {f"{port}/tcp": {} for port in (7000, 8080, 9000, 9092, 9324)},
    "Volumes": {"/data": {}},
    "StopSignal": "SIGTERM",
    "Healthcheck": {
        "Test": ["CMD", "/usr/bin/python3.11", "-c", _ALIVE],
        "Interval": 10_000_000_000,
        "Timeout": 3_000_000_000,
        "StartPeriod": 30_000_000_000,
    },
    "Labels": {"org.opencontainers.image.title": "goqueue", "org.opencontainers.image.version": __version__},
}
_ARCHITECTURES: Final = {"x86_64": "amd64", "aarch64": "arm64"}


def build(out: Path, roots: Path) -> None:
    """Writes the image to `out` and its bill of materials beside it; `roots` keeps the folders of the layers."""
    base, program = roots / "debian", roots / "goqueue"
    base.mkdir(parents=True)
    program.mkdir()
    print("Debian's packages ...", flush=True)
    debian = debian_root(base, roots / "downloads")
    print("Python's packages ...", flush=True)
    packages_root(program, Path(__file__).parents[2], roots)
    bill = bill_of_materials(debian, program / PACKAGES)
    (program / "usr/share/goqueue").mkdir(parents=True)
    (program / "usr/share/goqueue/sbom.cdx.json").write_bytes(bill)
    print("Packing ...", flush=True)
    layers = [layer(base), layer(program)]
    archive = image_archive(layers, SETTINGS, f"goqueue:{__version__}", _ARCHITECTURES[platform.machine()])
    out.write_bytes(archive)
    out.with_suffix(".cdx.json").write_bytes(bill)
    unpacked = sum(one.unpacked_bytes for one in layers)
    print(f"{out}: goqueue:{__version__}, {len(archive) / 1e6:.0f} MB, unpacked {unpacked / 1e6:.0f} MB")


def main() -> None:
    out = Path(sys.argv[1] if len(sys.argv) > 1 else "goqueue-image.tar")
    try:
        with tempfile.TemporaryDirectory(prefix="goqueue-image-") as scratch:
            build(out, Path(scratch) / "roots")
    except CannotBuild as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
