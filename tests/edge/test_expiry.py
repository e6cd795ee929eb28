"""Until when a certificate holds, read from its file."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from goqueue.edge.security.expiry import expires_ms
from tests.certificates import Authority

_DAY_S = 24 * 3600


def test_the_end_of_a_certificate_is_read_from_it(tmp_path: Path) -> None:
    text = Authority(tmp_path).sign("node").cert.read_text()
    assert expires_ms(text) / 1000 == pytest.approx(time.time() + 2 * _DAY_S, abs=600)
    assert expires_ms("words before\n" + text + text) == expires_ms(text)


@pytest.mark.parametrize("text", ["", "-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----\n"])
def test_what_is_no_certificate_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r".*"):
        expires_ms(text)
