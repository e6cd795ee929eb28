"""Drawings of the pages, as SVG, from the tables of the code where there are any. They follow the page's colours."""

from __future__ import annotations

import math
from collections.abc import Iterable
from html import escape
from typing import Final

from goqueue.base.priority import NAMES
from goqueue.core.delivery.states import MOVES, DeliveryEvent, MessageState
from goqueue.core.lanes import WEIGHTS

_STYLE: Final = (
    "<style>svg{color-scheme:light dark;font:14px system-ui,sans-serif}"
    ".b{fill:#eef2ff;stroke:#4f5bd5}.w{fill:#fff4e0;stroke:#c77700}.g{fill:#e6f6ec;stroke:#1a7f4b}"
    ".p{fill:#fafbff}.t{fill:#1b1f2a}.m{fill:#5a6072;font-size:12px}.l{stroke:#5a6072;fill:none;stroke-width:1.4}.a{fill:#5a6072}"
    "@media (prefers-color-scheme:dark){.b{fill:#262c4d;stroke:#8f9bff}.w{fill:#46341a;stroke:#ffb454}"
    ".p{fill:#171a22}.g{fill:#173626;stroke:#5fd394}.t{fill:#e8eaf2}.m{fill:#a8aec2}.l{stroke:#a8aec2}.a{fill:#a8aec2}}</style>"
)
_ARROW: Final = (
    '<defs><marker id="a" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
    '<path class="a" d="M0 0 8 4 0 8z"/></marker></defs>'
)
# How each move is told to people, and where its word stands; moves that only replays and positions cause are left out.
_WORDS: Final = {
    (MessageState.READY, DeliveryEvent.TAKE): ("take", 222, 40, "middle"),
    (MessageState.LEASED, DeliveryEvent.RELEASE): ("give back", 222, 92, "middle"),
    (MessageState.LEASED, DeliveryEvent.ACK): ("ack", 500, 50, "middle"),
    (MessageState.LEASED, DeliveryEvent.RETURN): ("nack, or lease over", 288, 150, "start"),
    (MessageState.LEASED, DeliveryEvent.CONDEMN): ("reject, or too many failures", 440, 118, "start"),
    (MessageState.READY, DeliveryEvent.CONDEMN): ("too old", 300, 278, "middle"),
    (MessageState.WAITING, DeliveryEvent.DUE): ("wait over", 128, 150, "end"),
    (MessageState.DEAD, DeliveryEvent.INTER): ("copied to the dead letters", 606, 170, "start"),
}
_PLACES: Final = {
    MessageState.READY: (80, 60),
    MessageState.LEASED: (360, 60),
    MessageState.WAITING: (220, 210),
    MessageState.DEAD: (530, 210),
    MessageState.DONE: (660, 60),
}
_KINDS: Final = {MessageState.DONE: "g", MessageState.WAITING: "w", MessageState.DEAD: "w"}


def drawings() -> dict[str, str]:
    return {
        "log.svg": log(),
        "queue.svg": queue(),
        "lanes.svg": lanes(),
        "schedule.svg": schedule(),
        "shards.svg": shards(),
        "replication.svg": replication(),
    }


def _svg(width: int, height: int, title: str, parts: Iterable[str]) -> str:
    size = f'viewBox="0 0 {width} {height}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-label="{escape(title)}">'
    paper = f'<rect class="p" width="{width}" height="{height}" rx="10"/>'
    return "\n".join([head, _STYLE, _ARROW, paper, *parts, "</svg>"]) + "\n"


def _box(x: float, y: float, width: float, height: float, text: str, kind: str = "b") -> str:
    middle = (
        f'<text class="t" x="{x + width / 2:g}" y="{y + height / 2 + 5:g}" text-anchor="middle">{escape(text)}</text>'
    )
    return f'<rect class="{kind}" x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="6"/>{middle}'


def _text(x: float, y: float, text: str, anchor: str = "middle") -> str:
    return f'<text class="m" x="{x:g}" y="{y:g}" text-anchor="{anchor}">{escape(text)}</text>'


def _line(x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<path class="l" marker-end="url(#a)" d="M{x1:g} {y1:g} {x2:g} {y2:g}"/>'


def log() -> str:
    cells = [_box(20 + 60 * n, 50, 56, 40, str(n), "b" if n < 9 else "g") for n in range(10)]
    marks = [
        _text(20, 30, "start offset", "start"),
        _text(618, 30, "a publish adds here", "end"),
        _line(590, 34, 590, 48),
        _line(228, 130, 228, 94),
        _text(228, 146, "group billing is here"),
        _line(468, 130, 468, 94),
        _text(468, 146, "group search is here"),
    ]
    return _svg(640, 160, "A partition is a log; groups are positions in it", [*cells, *marks])


def queue() -> str:
    moves = [(start, event, end) for (start, event), end in MOVES.items() if (start, event) in _WORDS]
    pairs = {(start, end) for start, _, end in moves}
    parts: list[str] = []
    for start, event, end in moves:
        parts.append(_edge(start, end, (end, start) in pairs))
        word, x, y, anchor = _WORDS[start, event]
        parts.append(_text(x, y, word, anchor))
    for state, (x, y) in _PLACES.items():
        parts.append(_box(x - 55, y - 22, 110, 44, state.name.lower(), _KINDS.get(state, "b")))
    return _svg(820, 300, "The states of a message in a queue", parts)


def _edge(start: MessageState, end: MessageState, is_pair: bool) -> str:
    """From border to border; two that go both ways stand beside each other, and the longest goes around."""
    x1, y1, x2, y2 = map(float, (*_PLACES[start], *_PLACES[end]))
    if (start, end) == (MessageState.READY, MessageState.DEAD):
        return f'<path class="l" marker-end="url(#a)" d="M{x1 - 30:g} {y1 + 24:g} V262 H{x2:g} V{y2 + 26:g}"/>'
    length = math.hypot(x2 - x1, y2 - y1)
    dx, dy = (x2 - x1) / length, (y2 - y1) / length
    side = 9 if is_pair else 0
    x1, y1, x2, y2 = x1 + dy * side, y1 - dx * side, x2 + dy * side, y2 - dx * side
    gap = min(57 / abs(dx) if dx else math.inf, 24 / abs(dy) if dy else math.inf)
    return _line(x1 + dx * gap, y1 + dy * gap, x2 - dx * (gap + 3), y2 - dy * (gap + 3))


def lanes() -> str:
    parts: list[str] = []
    for number, weight in enumerate(WEIGHTS):
        y = 20 + 34 * number
        parts.append(_text(90, y + 18, NAMES[number], "end"))
        parts.append(_box(100, y, 8 * weight, 26, ""))
        parts.append(_text(108 + 8 * weight, y + 18, f"{weight} of {sum(WEIGHTS)}", "start"))
    return _svg(640, 34 * len(WEIGHTS) + 30, "How many messages each lane gets when all are full", parts)


def schedule() -> str:
    parts = [
        _box(20, 60, 120, 44, "publish, 10 min"),
        _line(142, 82, 198, 82),
        _box(200, 60, 150, 44, "schedule log", "w"),
        _line(352, 82, 448, 82),
        _text(400, 72, "when due"),
        _box(450, 60, 150, 44, "partition's log", "g"),
        _text(275, 130, "nobody sees it here"),
        _text(525, 130, "every reader sees it from here on"),
    ]
    return _svg(640, 150, "A delayed message waits in the schedule and joins its log when it is due", parts)


def shards() -> str:
    parts: list[str] = []
    for shard in range(3):
        x = 20 + 205 * shard
        parts.append(f'<rect class="b" x="{x}" y="30" width="190" height="180" rx="8"/>')
        parts.append(_text(x + 95, 22, f"shard {shard}"))
        for row, text in enumerate((f"orders/{shard}", f"jobs/{shard}", "its groups", "its leases", "its schedule")):
            parts.append(_box(x + 12, 42 + 33 * row, 166, 27, text, "g" if row < 2 else "w"))
    return _svg(640, 225, "A shard holds partitions, and the books about them", parts)


def replication() -> str:
    parts = [
        _box(20, 85, 110, 44, "producer"),
        _line(132, 107, 218, 107),
        _box(220, 85, 130, 44, "leader", "g"),
        _line(352, 100, 438, 52),
        _line(352, 114, 438, 162),
        _box(440, 25, 150, 44, "follower"),
        _box(440, 145, 150, 44, "follower"),
        _text(285, 160, "answers when enough"),
        _text(285, 176, "replicas have it"),
        _text(515, 110, "fetch what is new"),
    ]
    return _svg(640, 210, "A leader takes writes, followers fetch them", parts)
