"""Numbers as people read them, in one place for the console and the report."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

_THOUSANDS: Final = ("", " k", " M", " G", " T")
_BINARY: Final = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_LONG: Final = (("d", 86_400, "h", 3_600), ("h", 3_600, "min", 60), ("min", 60, "s", 1))
_EXACT_BELOW: Final = 10_000


def count(number: float) -> str:
    """`1,234`, `12.3 k`, `4.56 M`; a fraction keeps what matters of it."""
    if abs(number) < _EXACT_BELOW:
        return f"{number:,.0f}" if float(number).is_integer() else _three(number)
    power = 0
    while abs(number) >= 999.5 and power < len(_THOUSANDS) - 1:
        number, power = number / 1000, power + 1
    return _three(number) + _THOUSANDS[power]


def size(bytes_: float) -> str:
    """`512 B`, `1.5 KiB`, `23.4 MiB`."""
    power = 0
    while abs(bytes_) >= 1023.5 and power < len(_BINARY) - 1:
        bytes_, power = bytes_ / 1024, power + 1
    return f"{bytes_:.0f} B" if power == 0 else f"{_three(bytes_)} {_BINARY[power]}"


def rate(per_second: float) -> str:
    """`13.9/s`."""
    return f"{count(per_second)}/s"


def span(micros: float) -> str:
    """`17 us`, `1.3 ms`, `2.5 s`, `90 s`, `4 min 10 s`, `3 h 20 min`, `5 d 2 h`."""
    if micros < 999.5:
        return f"{micros:.0f} us"
    if micros < 999_500:
        return f"{_three(micros / 1_000)} ms"
    if micros < 119_500_000 and micros != 60_000_000:
        return f"{_three(micros / 1_000_000)} s"
    return _long_span(round(micros / 1_000_000))


def _long_span(seconds: int) -> str:
    big, length, small, part = next(one for one in _LONG if seconds >= one[1])
    rest = seconds % length // part
    return f"{seconds // length} {big}" + (f" {rest} {small}" if rest else "")


def share(part: float, whole: float) -> str:
    """`12.5 %`; of nothing it is `0 %`."""
    percent = 100 * part / whole if whole else 0.0
    return f"{percent:.0f} %" if percent.is_integer() else f"{_three(percent)} %"


def moment(millis: float) -> str:
    """`2026-01-31 12:00:00`, in UTC."""
    return datetime.fromtimestamp(millis / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")


def _three(number: float) -> str:
    """Three digits that count, without zeros at the end."""
    if abs(number) < 0.001 and number:
        return f"{number:.0e}"
    for bound, form in ((0.9995, ".3f"), (9.995, ".2f"), (99.95, ".1f")):
        if abs(number) < bound:
            return f"{number:{form}}".rstrip("0").rstrip(".")
    return f"{number:,.0f}"
