"""The month as a drawing: memory, checkpoints and files of each day, with what happened."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

_WIDE, _HIGH, _LEFT, _TOP = 760, 150, 60, 34
_PANELS: Final = (
    ("memory, MiB", ("jvm_mib", "python_mib")),
    ("files of checkpoints", ("checkpoint_files",)),
    ("files of tables", ("data_files", "log_files")),
    ("rows kept between batches", ("state_rows",)),
)
_NAMES: Final = {"jvm_mib": "JVM", "python_mib": "Python", "data_files": "data", "log_files": "logs"}
_COLOURS: Final = ("#3b7dd8", "#d8843b")
_STYLE: Final = (
    "text{font:12px system-ui,sans-serif;fill:#555}.t{font-weight:600}line{stroke:#8886}"
    ".e{stroke-dasharray:3 3}path{fill:none;stroke-width:1.8}"
    "@media(prefers-color-scheme:dark){text{fill:#bbb}}"
)


def draw(samples: Sequence[Any], events: Mapping[int, str], a_day: int) -> str:
    high = len(_PANELS) * (_HIGH + _TOP) + 30
    parts = [_panel(place, title, names, samples, events) for place, (title, names) in enumerate(_PANELS)]
    told = f"{len(samples)} simulated days of {a_day:,} events in {samples[-1].seconds / 60:.0f} minutes"
    foot = f'<text x="{_LEFT}" y="{high - 8}">{told}; the axis is days</text>'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDE} {high}" role="img" '
        f'aria-label="A month of pipeline serve"><style>{_STYLE}</style>{"".join(parts)}{foot}</svg>\n'
    )


def _panel(place: int, title: str, names: Sequence[str], samples: Sequence[Any], events: Mapping[int, str]) -> str:
    top = place * (_HIGH + _TOP) + _TOP
    peak = max(1.0, *(float(getattr(one, name)) for one in samples for name in names))
    last = max(1, int(samples[-1].day))

    def x(day: float) -> float:
        return _LEFT + day / last * (_WIDE - _LEFT - 20)

    def y(value: float) -> float:
        return top + _HIGH - 24 - value / peak * (_HIGH - 30)

    legend = " ".join(
        f'<tspan fill="{colour}">{_NAMES[name]}</tspan>'
        for name, colour in zip(names, _COLOURS, strict=False)
        if len(names) > 1
    )
    drawn = [f'<text class="t" x="{_LEFT}" y="{top - 8}">{title} {legend}</text>']
    for value in (0.0, peak / 2, peak):
        drawn.append(f'<line x1="{_LEFT}" x2="{_WIDE - 20}" y1="{y(value):.1f}" y2="{y(value):.1f}"/>')
        drawn.append(f'<text x="{_LEFT - 6}" y="{y(value) + 4:.1f}" text-anchor="end">{value:,.0f}</text>')
    for day, what in events.items():
        drawn.append(f'<line class="e" x1="{x(day):.1f}" x2="{x(day):.1f}" y1="{top}" y2="{y(0):.1f}"/>')
        drawn.append(f'<text x="{x(day) + 3:.1f}" y="{top + 8}">{what}</text>')
    drawn += [f'<text x="{x(day):.1f}" y="{y(0) + 15:.1f}" text-anchor="middle">{day}</text>' for day in _days(last)]
    for name, colour in zip(names, _COLOURS, strict=False):
        path = "L".join(f"{x(one.day):.1f} {y(float(getattr(one, name))):.1f}" for one in samples)
        drawn.append(f'<path d="M{path}" stroke="{colour}"/>')
    return "".join(drawn)


def _days(last: int) -> range:
    return range(0, last + 1, max(1, last // 6))
