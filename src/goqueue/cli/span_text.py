"""Lengths of time as people say them."""

from __future__ import annotations


def micros_text(micros: int) -> str:
    """`17 us`, `1.3 ms`, `2.50 s`, `3 h 20 min`."""
    if micros < 1_000:
        return f"{micros} us"
    if micros < 1_000_000:
        return f"{micros / 1_000:.1f} ms"
    if micros < 120_000_000:
        return f"{micros / 1_000_000:.2f} s"
    minutes = micros // 60_000_000
    return f"{minutes // 60} h {minutes % 60} min" if minutes >= 60 else f"{minutes} min"


def age_text(seconds: float) -> str:
    """`0 s`, `59 s`, `3 min 20 s`, `2 h 5 min`, `3 d 4 h`."""
    whole = max(0, int(seconds))
    if whole < 60:
        return f"{whole} s"
    if whole < 3_600:
        return f"{whole // 60} min {whole % 60} s"
    if whole < 86_400:
        return f"{whole // 3_600} h {whole % 3_600 // 60} min"
    return f"{whole // 86_400} d {whole % 86_400 // 3_600} h"
