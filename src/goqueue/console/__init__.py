"""The web page a node serves at its root: static files that talk to the REST door like any other client."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.resources import files
from importlib.resources.abc import Traversable

_TYPES = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}


_READ_ONLY = b"export const isReadOnlyNode = true;\n"


def pages(is_read_only: bool = False) -> dict[str, tuple[str, bytes]]:
    """Path to (media type, content). A read-only page has no controls that change the node; its routes stay."""
    found: dict[str, tuple[str, bytes]] = {}
    for name, file in _all(files(__name__) / "assets", ""):
        kind = name.rpartition(".")[2]
        if kind in _TYPES:
            found[f"/console/{name}"] = (_TYPES[kind], file.read_bytes())
    if is_read_only:
        found["/console/mode.js"] = (_TYPES["js"], _READ_ONLY)
    found["/"] = found.pop("/console/index.html")
    return found


def look() -> str:
    """The colours and the type of the page, for other pages that are to look the same."""
    return (files(__name__) / "assets" / "look.css").read_text()


def _all(directory: Traversable, above: str) -> Iterator[tuple[str, Traversable]]:
    for one in directory.iterdir():
        if one.is_dir():
            yield from _all(one, f"{above}{one.name}/")
        else:
            yield f"{above}{one.name}", one
