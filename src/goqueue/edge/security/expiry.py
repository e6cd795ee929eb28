"""Until when a certificate holds. The standard library tells that of a peer's certificate only, not of one's own."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime
from typing import Final

from goqueue.base.ids import Millis

_VERSION: Final = 0xA0
_UTC_TIME: Final = 0x17
_BEFORE_VALIDITY: Final = 3  # serial number, signature, issuer
_END: Final = "-----END CERTIFICATE-----"


def expires_ms(pem: str) -> Millis:
    """Of the first certificate in a text; `ValueError` if there is none that can be read."""
    der = ssl.PEM_cert_to_DER_cert(pem[pem.index("-----BEGIN CERTIFICATE-----") : pem.index(_END) + len(_END)])
    try:
        return _expires_ms(der)
    except IndexError:
        raise ValueError("The certificate is cut short.") from None


def _expires_ms(der: bytes) -> Millis:
    """`Certificate`, `tbsCertificate`, then its fields up to `validity`, which is two times (RFC 5280)."""
    _, at, _ = _element(der, 0)
    _, at, _ = _element(der, at)
    if der[at] == _VERSION:
        _, _, at = _element(der, at)
    for _ in range(_BEFORE_VALIDITY):
        _, _, at = _element(der, at)
    _, at, _ = _element(der, at)
    _, _, at = _element(der, at)  # not before
    tag, begin, end = _element(der, at)
    form = "%y%m%d%H%M%SZ" if tag == _UTC_TIME else "%Y%m%d%H%M%SZ"
    until = datetime.strptime(der[begin:end].decode("ascii"), form).replace(tzinfo=UTC)
    return round(until.timestamp() * 1000)


def _element(der: bytes, at: int) -> tuple[int, int, int]:
    """Its tag, and where its content begins and ends."""
    size, begin = der[at + 1], at + 2
    if size & 0x80:
        begin += size & 0x7F
        size = int.from_bytes(der[at + 2 : begin], "big")
    return der[at], begin, begin + size
