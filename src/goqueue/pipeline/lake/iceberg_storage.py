"""Iceberg's files in object storage, found by the variables that Delta's tables are found with."""

from __future__ import annotations

import os
from typing import Final

from pyarrow import fs
from pyiceberg.io.pyarrow import PyArrowFileIO

_BY_VARIABLE: Final = {
    "AWS_ENDPOINT_URL": "s3.endpoint",
    "AWS_ACCESS_KEY_ID": "s3.access-key-id",
    "AWS_SECRET_ACCESS_KEY": "s3.secret-access-key",
    "AWS_SESSION_TOKEN": "s3.session-token",
    "AWS_DEFAULT_REGION": "s3.region",
    "AWS_REGION": "s3.region",
}
_REGION: Final = "us-east-1"  # of servers that have none, as in delta-rs


class SmallFilesIO(PyArrowFileIO):
    """Writes a small file by one request, not by an upload in parts: those are three, and not every server has them."""

    def _initialize_s3_fs(self, netloc: str | None) -> fs.FileSystem:
        _, (options,) = super()._initialize_s3_fs(netloc).__reduce__()
        return fs.S3FileSystem(**{**options, "allow_delayed_open": True})


def storage_properties() -> dict[str, str]:
    """What a catalogue of pyiceberg is told."""
    found = {name: os.environ[variable] for variable, name in _BY_VARIABLE.items() if variable in os.environ}
    region = {"s3.region": _REGION} if "s3.endpoint" in found else {}
    return {"py-io-impl": f"{SmallFilesIO.__module__}.{SmallFilesIO.__qualname__}", **region, **found}
