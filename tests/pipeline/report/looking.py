"""Pages as a person sees them: pictures by headless Chromium, kept in `build/artefacts`."""

from __future__ import annotations

import shutil
import struct
import subprocess
import zlib
from pathlib import Path
from typing import NamedTuple

import pytest

ARTEFACTS = Path(__file__).parents[3] / "build" / "artefacts"
DARK = "--blink-settings=preferredColorScheme=0"


class Picture(NamedTuple):
    width: int
    height: int
    corner: tuple[int, int, int]  # the colour of the first pixel
    size: int


def looked_at(html: Path, name: str, height: int, *flags: str, width: int = 1280) -> Picture:
    """The page as a picture; skips the test where there is no Chromium."""
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if program is None:
        pytest.skip("a picture of the page needs Chromium; `tools/need.sh chromium` installs it")
    ARTEFACTS.mkdir(parents=True, exist_ok=True)
    out = ARTEFACTS / f"{name}.png"
    out.unlink(missing_ok=True)
    profile = html.parent / f"chromium-{name}"
    command = [program, "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", *flags]
    command += [f"--user-data-dir={profile}", f"--window-size={width},{height}", f"--screenshot={out}", html.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert out.exists(), done.stderr
    return picture(out.read_bytes())


def picture(png: bytes) -> Picture:
    """What can be told of a PNG without a library."""
    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    width, height = struct.unpack(">II", png[16:24])
    data, at = b"", 8
    while at < len(png):
        length, kind = struct.unpack(">I4s", png[at : at + 8])
        data += png[at + 8 : at + 8 + length] if kind == b"IDAT" else b""
        at += length + 12
    first = zlib.decompressobj().decompress(data, 4)
    return Picture(width, height, (first[1], first[2], first[3]), len(png))
