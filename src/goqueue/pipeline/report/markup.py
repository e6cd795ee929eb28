"""HTML and SVG as text. What is not markup already is escaped, so that no message's content becomes part of the page.

Everything is also well-formed XML: elements without content are closed in place, and only the five entities are used.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, TypeAlias
from xml.sax.saxutils import escape, quoteattr

# XML has no way to write these, not even escaped.
_CONTROL: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
_OPEN: Final = frozenset({"script", "div", "span", "td", "th", "p", "i", "g", "svg", "text", "section", "tbody"})


class Markup(str):
    """Text that is markup and goes into the page as it is."""

    __slots__ = ()


Inner: TypeAlias = "str | Markup | Iterable[Inner] | None"
Value: TypeAlias = str | float | bool | None


def text(value: str) -> Markup:
    """Anything as visible text."""
    return Markup(escape(_CONTROL.sub("\ufffd", value)))


def join(*inner: Inner) -> Markup:
    """In order, without anything between."""
    return Markup("".join(_flat(inner)))


def _flat(inner: Inner) -> Iterable[str]:
    if inner is None:
        return
    if isinstance(inner, str):
        yield inner if isinstance(inner, Markup) else text(inner)
        return
    for one in inner:
        yield from _flat(one)


def tag(name: str, /, *inner: Inner, **attributes: Value) -> Markup:
    """One element. `class_` is `class`, `stroke_width` is `stroke-width`; None and False leave an attribute out."""
    told = "".join(
        _attribute(key, value) for key, value in attributes.items() if value is not None and value is not False
    )
    content = join(*inner)
    if not content and name not in _OPEN:
        return Markup(f"<{name}{told}/>")
    return Markup(f"<{name}{told}>{content}</{name}>")


def _attribute(key: str, value: Value) -> str:
    name = key.rstrip("_").replace("_", "-")
    if value is True:
        value = name
    shown = number(value) if isinstance(value, float) else str(value)
    return f" {name}={quoteattr(_CONTROL.sub('', shown))}"


def number(value: float) -> str:
    """A coordinate: a tenth of a pixel is fine enough."""
    return f"{value:.1f}".removesuffix(".0")
