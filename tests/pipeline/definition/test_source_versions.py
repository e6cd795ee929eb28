"""Tables and files that streams join are looked at now and then: who reads them is started anew if they changed."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
from deltalake import write_deltalake

from goqueue.pipeline.definition.reading import from_text
from goqueue.pipeline.definition.source_versions import SourceVersions

JOINED = """name = "joined"
[[source]]
name = "orders"
topic = "orders"
[[source]]
name = "customers"
table = "customers"
[[source]]
name = "as_they_were"
table = "customers"
as_of = "2026-01-31T12:00:00Z"
[[source]]
name = "rates"
file = "rates.csv"
[[sink]]
view = "orders"
table = "copies"
"""


def test_a_changed_table_or_file_is_noticed_once_a_minute_at_most(tmp_path: Path) -> None:
    file, lake = from_text(tmp_path / "joined.toml", JOINED), str(tmp_path / "lake")
    rates = tmp_path / "rates.csv"
    rates.write_text("currency,rate\nEUR,1\n")
    write_deltalake(f"{lake}/customers", pa.table({"id": ["a"]}))
    found = SourceVersions(file, lake, 100.0)
    assert found.changed(161.0) is None
    write_deltalake(f"{lake}/customers", pa.table({"id": ["b"]}), mode="append")
    assert (found.changed(162.0), found.changed(171.0)) == (None, "customers")  # the lake is asked every ten seconds
    again = SourceVersions(file, lake, 171.0)
    assert (again.changed(230.0), again.changed(231.0)) == (None, None)
    rates.write_text("currency,rate\nEUR,2\n")
    os.utime(rates, ns=(1, 1))
    assert again.changed(241.0) == "rates"


def test_what_is_not_there_yet_is_noticed_when_it_comes(tmp_path: Path) -> None:
    file, lake = from_text(tmp_path / "joined.toml", JOINED), str(tmp_path / "lake")
    found = SourceVersions(file, lake, 0.0)
    write_deltalake(f"{lake}/customers", pa.table({"id": ["a"]}))
    assert found.changed(60.0) == "customers"
