"""Nothing that stands in a message can become part of the page."""

from __future__ import annotations

from xml.etree import ElementTree

from hypothesis import given
from hypothesis import strategies as st

from goqueue.pipeline.report.markup import Markup, join, tag


@given(st.text(), st.text())
def test_whatever_a_message_says_it_stays_text(content: str, attribute: str) -> None:
    found = ElementTree.fromstring(tag("p", content, title=attribute))
    assert list(found) == []
    assert set(found.attrib) == {"title"}
    plain = "".join(one for one in content if one.isprintable() and one != "\r")
    shown = "".join(one for one in found.text or "" if one.isprintable())
    assert shown.replace("\ufffd", "") == plain.replace("\ufffd", "")


def test_elements_and_attributes() -> None:
    assert tag("br") == "<br/>"
    assert tag("td") == "<td></td>"
    drawn = tag("line", x1=1.25, y1=3.0, stroke_width=2, class_="grid", hidden=True, title=None)
    assert drawn == '<line x1="1.2" y1="3" stroke-width="2" class="grid" hidden="hidden"/>'
    assert join("a < b", Markup("<b>c</b>"), None, ["d", ["e"]]) == "a &lt; b<b>c</b>de"
    assert tag("a", "&", href='"x"') == "<a href='\"x\"'>&amp;</a>"
