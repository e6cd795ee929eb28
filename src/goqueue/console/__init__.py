"""The web page a node serves at its root: static files that talk to the REST door like any other client."""

from __future__ import annotations

from importlib.resources import files

_TYPES = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}


def pages() -> dict[str, tuple[str, bytes]]:
    """Path to (media type, content)."""
    found: dict[str, tuple[str, bytes]] = {}
    for file in (files(__name__) / "assets").iterdir():
        kind = file.name.rpartition(".")[2]
        if kind in _TYPES:
            found[f"/console/{file.name}"] = (_TYPES[kind], file.read_bytes())
    found["/"] = found.pop("/console/index.html")
    return found
