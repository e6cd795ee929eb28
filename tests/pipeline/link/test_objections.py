"""Where a node may want another certificate of the client, the error says so; and only there."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from goqueue.pipeline.link import connection, doors
from goqueue.pipeline.link.connection import BrokerConnection
from goqueue.pipeline.link.errors import NodeUnreachable, PipelineError
from goqueue.pipeline.link.identity import NodeIdentity, split_identity, with_identity
from tests.door.security.secure import Certs, make_certs

OBJECTION = "it may want a client certificate"


@pytest.fixture(scope="module")
def certs(tmp_path_factory: pytest.TempPathFactory) -> Certs:
    return make_certs(tmp_path_factory.mktemp("certs"))


@contextmanager
def node(certs: Certs, hangs_up: bool) -> Iterator[str]:
    """Speaks TLS, and then says nothing, or hangs up at the first request."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certs.file("node.crt"), certs.file("node.key"))

    def serve() -> None:
        with suppress(OSError):
            while True:
                line, _ = listening.accept()
                line.settimeout(30)
                with suppress(OSError), context.wrap_socket(line, server_side=True) as secret:
                    while secret.recv(1_000) and not hangs_up:
                        pass

    with socket.create_server(("127.0.0.1", 0)) as listening:
        serving = threading.Thread(target=serve)
        serving.start()
        yield f"localhost:{listening.getsockname()[1]}"
        listening.shutdown(socket.SHUT_RDWR)
    serving.join()


def kafka_error(address: str, certs: Certs) -> OSError:
    host, _, port = address.partition(":")
    with pytest.raises(OSError) as raised:
        BrokerConnection(host, int(port), NodeIdentity(ca_file=certs.ca))
    return raised.value


def rest_error(address: str, certs: Certs) -> str:
    with pytest.raises(NodeUnreachable) as raised:
        doors.doors(None, with_identity(f"https://{address}", NodeIdentity(ca_file=certs.ca)), 0.1)
    return str(raised.value)


def test_a_node_that_hangs_up_may_want_a_certificate(certs: Certs) -> None:
    with node(certs, hangs_up=True) as address:
        assert OBJECTION in str(kafka_error(address, certs))
        assert OBJECTION in rest_error(address, certs)


def test_a_node_that_says_nothing_is_only_slow(certs: Certs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "ANSWER_S", 0.2)
    monkeypatch.setattr(doors, "_ANSWER_S", 0.2)
    with node(certs, hangs_up=False) as address:
        error = kafka_error(address, certs)
        assert isinstance(error, TimeoutError) and OBJECTION not in str(error)
        assert "timed out" in (told := rest_error(address, certs)) and OBJECTION not in told


def test_a_key_without_a_certificate_is_refused_in_the_environment_too(
    certs: Certs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GOQUEUE_CERT_KEY_FILE", certs.file("node.key"))
    with pytest.raises(PipelineError, match="set GOQUEUE_CERT_FILE too"):
        NodeIdentity().context()
    monkeypatch.setenv("GOQUEUE_CERT_FILE", certs.file("node.crt"))
    assert NodeIdentity().certificate() == (certs.file("node.crt"), certs.file("node.key"))
    assert split_identity("n:1#certFile=/a.crt")[1].certificate() == ("/a.crt", "/a.crt")
