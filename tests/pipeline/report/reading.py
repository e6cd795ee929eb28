"""A page as a reader has it: cards, tables, plots, what the pointer is told. Parsing proves it well-formed."""

from __future__ import annotations

import re
from xml.etree import ElementTree
from xml.etree.ElementTree import Element


def text_of(element: Element) -> str:
    return "".join(element.itertext())


def child(element: Element, kind: str) -> Element:
    """The first of its kind, which must be there."""
    found = element.find(kind)
    assert found is not None, kind
    return found


def said(element: Element) -> str:
    """Its own text, which must be there."""
    assert element.text is not None, element.tag
    return element.text


def said_in(element: Element, kind: str) -> str:
    return said(child(element, kind))


def attribute_of(element: Element, name: str) -> str:
    """An attribute, which must be there."""
    text = element.get(name)
    assert text is not None, name
    return text


def number_of(element: Element, name: str) -> float:
    return float(attribute_of(element, name))


class Page:
    def __init__(self, html: str) -> None:
        self.root = ElementTree.fromstring(html)

    def card(self, title: str) -> Card:
        found = [one for one in self.root.iter("div") if "card" in one.get("class", "").split()]
        named = [one for one in found if (child(one, "h3").text or "") == title]
        assert len(named) == 1, (title, [child(one, "h3").text for one in found])
        return Card(named[0])

    def titles(self) -> list[str]:
        return [said_in(one, "h3") for one in self.root.iter("div") if "card" in one.get("class", "").split()]

    def tiles(self) -> dict[str, tuple[str, str]]:
        """Name to number and remark."""
        found = [one for one in self.root.iter("div") if "tile" in one.get("class", "").split()]
        return {said_in(one, "span"): (said_in(one, "b"), getattr(one.find("small"), "text", "")) for one in found}


class Card:
    def __init__(self, element: Element) -> None:
        self.element = element
        self.text = text_of(element)

    def table(self, place: int = 0) -> list[dict[str, str]]:
        """Rows by the heads of their columns."""
        table = list(self.element.iter("table"))[place]
        heads = [text_of(one) for one in table.iter("th")]
        return [
            dict(zip(heads, map(text_of, row.findall("td")), strict=True)) for row in child(table, "tbody").iter("tr")
        ]

    def hovers(self) -> list[list[str]]:
        """What each strip of the plot tells, line by line."""
        strips = [one for one in self.element.iter("rect") if one.get("class") == "hit"]
        return [(child(one, "title").text or "").split("\n") for one in strips]

    def legend(self) -> dict[str, str]:
        return {said_in(one, "span"): said_in(one, "b") for one in self.element.iter("li")}

    def marks(self, kind: str, name: str) -> list[Element]:
        """Drawn elements of a kind that have all these classes."""
        wanted = set(name.split())
        return [one for one in self.element.iter(kind) if wanted <= set(one.get("class", "").split())]

    def heights(self) -> tuple[float, float]:
        """Where 0 and the highest amount on the axis are, in pixels; the axis' own numbers are `axis`."""
        places = [number_of(one, "y") - 4 for one in self._amounts()]
        return places[0], places[-1]

    def axis(self) -> list[str]:
        return [said(one) for one in self._amounts()]

    def _amounts(self) -> list[Element]:
        return [
            one for one in self.element.iter("text") if one.get("text-anchor") == "end" and number_of(one, "x") < 60
        ]


def path_points(element: Element) -> list[tuple[float, float]]:
    """The corners of a line."""
    found = re.findall(r"(-?[\d.]+) (-?[\d.]+)", attribute_of(element, "d"))
    return [(float(x), float(y)) for x, y in found]
