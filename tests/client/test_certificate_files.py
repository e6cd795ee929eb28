"""Files of certificates that cannot be used are named in one line, over HTTP as over gRPC."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest

from goqueue.client import AsyncClient, Client, GoQueueClientError
from tests.cli.running import goqueue
from tests.door.security.secure import Certs, make_certs

URLS = pytest.mark.parametrize("url", ["https://localhost:1", "grpcs://localhost:1"])


class Files(NamedTuple):
    ours: Certs
    others: Certs
    locked: str  # our key, encrypted
    missing: str

    @property
    def cert(self) -> str:
        return self.ours.file("ada.crt")

    @property
    def key(self) -> str:
        return self.ours.file("ada.key")


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    ours, others = (make_certs(tmp_path_factory.mktemp(name), "ada") for name in ("ours", "others"))
    locked = ours.file("locked.key")
    words = ["openssl", "pkey", "-in", ours.file("ada.key"), "-aes256", "-passout", "pass:secret", "-out", locked]
    subprocess.run(words, check=True, timeout=60)
    return Files(ours, others, locked, ours.file("missing.pem"))


def refused(url: str, ca_file: str | None = None, cert: str | tuple[str, str] | None = None) -> GoQueueClientError:
    with pytest.raises(GoQueueClientError) as raised, Client(url, 5, ca_file=ca_file, cert=cert) as client:
        client.version()
    assert raised.value.code == "invalid-field" and "\n" not in raised.value.detail
    return raised.value


@URLS
def test_each_file_that_cannot_be_used_is_named(url: str, files: Files) -> None:
    for cert, named, told in (
        ((files.missing, files.key), files.missing, "No such file"),
        ((files.cert, files.missing), files.missing, "No such file"),
        ((files.cert, files.others.file("ada.key")), files.others.file("ada.key"), "mismatch"),
        ((files.cert, files.locked), files.locked, "encrypted"),
        ((files.key, files.key), files.key, "PEM"),
        ((files.cert, str(Path(files.cert).parent)), str(Path(files.cert).parent), "Is a directory"),
    ):
        error = refused(url, files.ours.ca, cert)
        assert named in error.detail and told in error.detail and error.field == "cert", error
    for authority, told in ((files.missing, "No such file"), (files.key, "PEM")):
        error = refused(url, authority)
        assert authority in error.detail and told in error.detail and error.field == "ca_file", error


@URLS
def test_a_key_without_a_certificate_is_refused(url: str, files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    """gRPC would end the process."""
    assert files.key in refused(url, cert=("", files.key)).detail
    monkeypatch.setenv("GOQUEUE_CERT_KEY_FILE", files.key)
    assert "GOQUEUE_CERT_FILE" in refused(url).detail
    with pytest.raises(GoQueueClientError, match="GOQUEUE_CERT_FILE"):
        AsyncClient(url)
    done = goqueue("topic", "list", server=url)
    assert done.exit_code == 2 and files.key in done.stderr


@URLS
@pytest.mark.asyncio
async def test_the_client_of_asyncio_names_them_too(url: str, files: Files) -> None:
    with pytest.raises(GoQueueClientError, match=f"{files.locked}.*encrypted"):
        async with AsyncClient(url, cert=(files.cert, files.locked)) as client:
            await client.version()
