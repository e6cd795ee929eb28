"""Reading the audit log again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import msgspec
import pytest

from goqueue.core.audit_lines import AuditLine
from goqueue.service.audit_trail import AuditPage, AuditTrail

T = TypeVar("T")


async def at_once(work: Callable[[], T]) -> T:
    return work()


def line(number: int) -> bytes:
    event = "change" if number % 2 else "refused"
    told = AuditLine(
        f"2026-01-01T00:00:{number:05d}Z", event, "ada", verb="Topics.create", resources=(f"topic:t{number}",)
    )
    return msgspec.json.encode(told) + b"\n"


@pytest.mark.asyncio
async def test_the_newest_lines_that_fit_come_first_also_from_the_file_before(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    Path(f"{path}.1").write_bytes(b"".join(line(number) for number in range(10)))
    path.write_bytes(b"".join(line(number) for number in range(10, 5_000)) + b'{"time": cut')
    trail = AuditTrail(str(path), at_once)
    assert (await trail.page(1)).is_kept
    assert [one.resources[0] for one in (await trail.page(3)).lines] == ["topic:t4999", "topic:t4998", "topic:t4997"]
    assert [one.resources[0] for one in (await trail.page(2, event="change", text="t7")).lines] == [
        "topic:t799",
        "topic:t797",
    ]
    assert len((await trail.page(10_000)).lines) == 5_000
    assert (await trail.page(5, user="bob")).lines == []
    assert len((await trail.page(5, user="User:ada")).lines) == 5


@pytest.mark.asyncio
async def test_without_a_log_there_are_no_lines(tmp_path: Path) -> None:
    assert await AuditTrail("", at_once).page(5) == AuditPage([], False)
    assert await AuditTrail(str(tmp_path / "never"), at_once).page(5) == AuditPage([], True)
