"""Addresses of Iceberg's catalogue that nothing can be opened at: one line that says why, and no password in it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from goqueue.cli.pipeline_failures import end_of_pipeline
from goqueue.pipeline.lake.iceberg_catalog import CatalogUnfit, CatalogUnopened, check_catalog
from goqueue.pipeline.lake.stores import store


@pytest.mark.parametrize(
    ("address", "reason"),
    [
        ("foo+bar://ann:secret@host/lake", "no kind of database is called 'foo+bar'"),
        ("postgresql+pg8000://ann:secret@host/lake", "needs the Python module 'pg8000', which is not installed"),
        ("sqlite://ann:secret@host:port/lake", "that is no address of a database"),
        ("://ann:secret@host", "that is no address of a database"),
    ],
)
def test_an_address_without_a_driver_is_told(address: str, reason: str) -> None:
    with pytest.raises(CatalogUnfit, match=re.escape(reason)) as raised:
        check_catalog(address)
    told = str(raised.value)
    assert "like sqlite:////data/lake.db" in told and "secret" not in told and "\n" not in told
    with pytest.raises(CatalogUnfit):
        store("iceberg", "lake", address)


def test_a_database_that_cannot_be_opened_is_told(tmp_path: Path) -> None:
    """Not even root makes folders in /proc."""
    (tmp_path / "file").write_text("no database")
    for where in (tmp_path, tmp_path / "file", tmp_path / "file/lake.db", Path("/proc/lake/lake.db")):
        address = f"sqlite:///{where}"
        check_catalog(address)
        with pytest.raises(CatalogUnopened) as raised:
            store("iceberg", "lake", address)
        ended = end_of_pipeline(raised.value)
        assert ended is not None and "\n" not in ended.message
        assert ended.message.startswith(f"The Iceberg catalogue {address} cannot be opened: ")
