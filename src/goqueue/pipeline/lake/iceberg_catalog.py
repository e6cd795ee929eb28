"""The database in which Iceberg's tables are registered: whether it can be opened here, and opened."""

from __future__ import annotations

import contextlib
from functools import lru_cache
from pathlib import Path
from typing import Final

from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import NamespaceAlreadyExistsError
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, NoSuchModuleError, SQLAlchemyError

from goqueue.pipeline.lake.errors import LakeError
from goqueue.pipeline.lake.iceberg_storage import storage_properties
from goqueue.pipeline.lake.storage_failures import advice, one_line

NAMESPACE: Final = "lake"
_SQLITE: Final = "sqlite:///"
_LIKE: Final = "like sqlite:////data/lake.db or postgresql+psycopg2://user@host/lake"


class CatalogUnfit(LakeError):
    """No catalogue can be opened at such an address."""


class CatalogUnopened(LakeError):
    """The database is away, or does not take the tables of a catalogue."""


def check_catalog(address: str) -> None:
    """`CatalogUnfit` if the address is none, or of a database whose driver is not installed; connects to nothing."""
    url = _url(address)
    try:
        url.get_dialect().import_dbapi()
    except NoSuchModuleError:
        told = f"catalog: no kind of database is called {url.drivername!r}; say an address {_LIKE}"
        raise CatalogUnfit(told) from None
    except ImportError as error:
        told = f"catalog: {url.drivername} needs the Python module {error.name!r}, which is not installed; "
        raise CatalogUnfit(f"{told}install it, or name another driver, {_LIKE}") from None


@lru_cache(maxsize=16)
def open_catalog(address: str) -> SqlCatalog:
    """One for each database; the process ends with it."""
    check_catalog(address)
    try:
        if address.startswith(_SQLITE):
            Path(address.removeprefix(_SQLITE)).parent.mkdir(parents=True, exist_ok=True)
        found = SqlCatalog("lake", uri=address, init_catalog_tables="true", **storage_properties())
        with contextlib.suppress(NamespaceAlreadyExistsError):
            found.create_namespace_if_not_exists(NAMESPACE)
    except (OSError, SQLAlchemyError) as error:
        raise _unopened(address, error) from None
    return found


def _url(address: str) -> URL:
    try:
        return make_url(address)
    except (ArgumentError, ValueError):  # what it says of a wrong port has the password in it
        raise CatalogUnfit(f"catalog: that is no address of a database; say one {_LIKE}") from None


def _unopened(address: str, error: OSError | SQLAlchemyError) -> CatalogUnopened:
    cause = getattr(error, "orig", None) or error
    shown = _url(address).render_as_string(hide_password=True)
    to_do = advice(cause, "Start the database, or correct `catalog`.")
    return CatalogUnopened(f"The Iceberg catalogue {shown} cannot be opened: {one_line(cause)}. {to_do}")
