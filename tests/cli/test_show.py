"""How bytes, times and counts look."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.cli.show import bytes_text, counted, headers_text, print_table, time_text


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (None, "null"),
        (b"", ""),
        ("héllo".encode(), "héllo"),
        (b"a\tb\n\x1b[31m", r"a\tb\n\x1b[31m"),
        (b"\xff", "base64:/w=="),
    ],
)
def test_bytes_are_one_printable_line(data: bytes | None, text: str) -> None:
    assert bytes_text(data) == text


@given(st.binary())
def test_no_bytes_can_move_the_cursor_of_a_terminal(data: bytes) -> None:
    assert bytes_text(data).isprintable()


def test_times_are_utc_and_odd_ones_stay_numbers() -> None:
    assert time_text(1_767_225_600_123) == "2026-01-01T00:00:00.123Z"
    assert time_text(-1) == "-1"
    assert time_text(2**62) == str(2**62)


def test_headers_in_one_column() -> None:
    assert headers_text([("a", b"1"), ("b", None)]) == "a=1,b=null"
    assert headers_text([]) == "-"


def test_counts() -> None:
    assert [counted(1, "batch"), counted(2, "batch"), counted(1234, "record")] == [
        "1 batch",
        "2 batches",
        "1,234 records",
    ]


def test_a_table_in_a_pipe_is_never_cut(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(("NAME", "COUNT"), [("x" * 300, 1234), ("[bold]b[/]", 5)])
    lines = capsys.readouterr().out.splitlines()
    assert lines[1] == "x" * 300 + "  1,234"
    assert lines[2].startswith("[bold]b[/] ")
