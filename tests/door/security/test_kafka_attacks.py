"""Kafka's door under attack."""

from __future__ import annotations

import time
from contextlib import ExitStack

import pytest
from scramp import ScramClient

from goqueue.base.limits import FAILURES_FREE
from tests.door.security.line import Line
from tests.door.security.secure import SecureNode

FAILED = 58


def _first(line: Line, name: str, password: str) -> bytes:
    """The first half of a login; the second half is to be sent yet."""
    client = ScramClient(["SCRAM-SHA-256"], name, password)
    line.handshake("SCRAM-SHA-256")
    answer = line.authenticate(client.get_client_first().encode())
    assert answer.error_code == 0
    client.set_server_first(bytes(answer.auth_bytes).decode())
    final: str = client.get_client_final()
    return final.encode()


def test_guesses_prepared_beforehand_have_to_wait_too(secure: SecureNode) -> None:
    """All have their first half behind them when the first of them fails."""
    name, password = secure.user("prepared")
    with ExitStack() as open_lines:
        lines = [open_lines.enter_context(Line(secure.node.kafka)) for _ in range(FAILURES_FREE + 1)]
        *wrong, right = [_first(line, name, "not it") for line in lines[:-1]] + [_first(lines[-1], name, password)]
        assert [line.authenticate(one).error_code for line, one in zip(lines, wrong, strict=False)] == [
            FAILED
        ] * FAILURES_FREE
        assert lines[-1].authenticate(right).error_code == FAILED


def test_a_huge_scram_message_is_refused_unread(secure: SecureNode) -> None:
    with Line(secure.node.kafka) as line:
        line.handshake("SCRAM-SHA-256")
        started = time.process_time()
        assert line.authenticate(b"n,,n=" + b"x" * 60_000 + b",r=abc").error_code == FAILED
        assert time.process_time() - started < 5


@pytest.mark.parametrize(
    "first",
    [b"", b"n", b"n,,", b"n,,n=", b"n,,n=admin", b"n,,n=ad=min,r=x", b"p=tls-unique,,n=admin,r=x", b"\xff", b"y,,r=x"],
)
def test_what_is_no_scram_message_is_refused(secure: SecureNode, first: bytes) -> None:
    with Line(secure.node.kafka) as line:
        line.handshake("SCRAM-SHA-256")
        assert line.authenticate(first).error_code == FAILED


def test_a_name_that_is_not_there_looks_like_one_that_is(secure: SecureNode) -> None:
    """Until the end: it has a salt, the same each time, and as many rounds."""
    name, _ = secure.user("somebody")
    seen = {one: [_salt(secure, one) for _ in range(2)] for one in (name, "nobody-of-that-name")}
    for found in seen.values():
        assert found[0] == found[1]
    assert len(seen[name][0][0]) == len(seen["nobody-of-that-name"][0][0])
    assert seen[name][0][1] == seen["nobody-of-that-name"][0][1]


def _salt(secure: SecureNode, name: str) -> tuple[str, str]:
    client = ScramClient(["SCRAM-SHA-512"], name, "x")
    with Line(secure.node.kafka) as line:
        line.handshake("SCRAM-SHA-512")
        answer = bytes(line.authenticate(client.get_client_first().encode()).auth_bytes).decode()
    parts = dict(one.split("=", 1) for one in answer.split(","))
    return parts["s"], parts["i"]


# --- certificates -----------------------------------------------------------------------------------------------


def test_who_has_a_certificate_may_log_in_as_another_at_first(encrypted: SecureNode) -> None:
    assert encrypted.certs is not None
    name, password = encrypted.user("behind-a-certificate")
    with Line(encrypted.node.kafka, encrypted.certs.context("carol")) as line:
        assert line.plain(name, password).error_code == 0
        assert line.metadata().brokers


def test_but_not_when_it_has_done_something_by_its_certificate(encrypted: SecureNode) -> None:
    assert encrypted.certs is not None
    name, password = encrypted.user("too-late")
    with Line(encrypted.node.kafka, encrypted.certs.context("carol")) as line:
        assert line.metadata().brokers
        assert line.plain(name, password).error_code == FAILED
        with pytest.raises(EOFError):
            line.metadata()
