"""The name of whoever shows a certificate that a trusted authority signed."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any, Final

import re2

from goqueue.base.security_settings import SecuritySettings
from goqueue.service.principals import is_principal

# As in RFC 2253; what it has no short name for is called as it is.
_SHORT: Final = {
    "commonName": "CN",
    "organizationName": "O",
    "organizationalUnitName": "OU",
    "countryName": "C",
    "localityName": "L",
    "stateOrProvinceName": "ST",
    "streetAddress": "STREET",
    "domainComponent": "DC",
    "userId": "UID",
}


class CertificateNames:
    """By the rule of the settings."""

    def __init__(self, settings: SecuritySettings) -> None:
        self._part = settings.certificate_name
        self._pattern = re2.compile(settings.certificate_pattern) if settings.certificate_pattern else None

    def of(self, transport: asyncio.BaseTransport) -> str:
        """Empty if no certificate was shown, or none with a name."""
        shown = transport.get_extra_info("peercert")
        return self.name(shown) if shown else ""

    def name(self, certificate: Mapping[str, Any]) -> str:
        text = self._text(certificate)
        if self._pattern is not None:
            found = self._pattern.fullmatch(text)
            text = "" if found is None else (found.group(1) if found.re.groups else text) or ""
        return text if is_principal(text) else ""

    def _text(self, certificate: Mapping[str, Any]) -> str:
        if self._part == "san":
            return next((str(value) for _, value in certificate.get("subjectAltName", ())), "")
        pairs = list(_pairs(certificate))
        if self._part == "cn":
            return next((value for name, value in reversed(pairs) if name == "commonName"), "")
        return ",".join(f"{_SHORT.get(name, name)}={_escaped(value)}" for name, value in reversed(pairs))


def _pairs(certificate: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
    return ((str(name), str(value)) for part in certificate.get("subject", ()) for name, value in part)


def _escaped(value: str) -> str:
    return "".join(f"\\{one}" if one in ',+"\\<>;=' else one for one in value)
