"""`goqueue cert dev`: an authority and certificates to try TLS with. Not for anything that matters."""

from __future__ import annotations

import ipaddress
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from goqueue.cli.failures import Failed
from goqueue.cli.options import CommandGroup
from goqueue.cli.show import remark

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

_BACK: Final = timedelta(minutes=5)  # clocks differ


@click.group(cls=CommandGroup)
def cert() -> None:
    """Make throw-away certificates."""


@cert.command()
@click.option("--out", required=True, type=click.Path(path_type=Path), metavar="DIR", help="Where the files go.")
@click.option("--host", "hosts", multiple=True, metavar="NAME", help="A name or address of the node; repeatable.")
@click.option("--client", "clients", multiple=True, metavar="USER", help="A client's certificate too; repeatable.")
@click.option("--days", type=click.IntRange(1, 825), default=30, show_default=True, help="How long they count.")
def dev(out: Path, hosts: tuple[str, ...], clients: tuple[str, ...], days: int) -> None:
    """Make an authority, a certificate for a node, and some for clients.

    An authority that is in the directory already is used again.
    """
    try:
        import cryptography  # noqa: F401
    except ModuleNotFoundError:
        raise Failed("Certificates need another package: pip install 'goqueue[security]'.") from None
    out.mkdir(mode=0o700, parents=True, exist_ok=True)
    authority = Authority(out, days)
    authority.issue("node", "goqueue", ["localhost", "127.0.0.1", "::1", *hosts])
    for name in clients:
        authority.issue(name, name, [])
    made = ", ".join(f"{name}.crt and {name}.key" for name in ("node", *clients))
    remark(f"Made ca.crt, {made} in {out}. They are for trying: everybody who has ca.key can make more.")


class Authority:
    """Signs what it is asked to."""

    def __init__(self, out: Path, days: int) -> None:
        from cryptography import x509
        from cryptography.hazmat.primitives.serialization import load_pem_private_key

        self._out = out
        self._days = days
        if not (out / "ca.key").exists():
            self._make()
        self._cert = x509.load_pem_x509_certificate((out / "ca.crt").read_bytes())
        self._key = load_pem_private_key((out / "ca.key").read_bytes(), None)

    def _make(self) -> None:
        from cryptography import x509

        key = _new_key()
        name = _name("GoQueue throw-away authority")
        built = self._builder(name, name, key).add_extension(x509.BasicConstraints(ca=True, path_length=0), True)
        self._write("ca", key, built.add_extension(_usage(signs=True), True), key)

    def issue(self, file: str, common_name: str, hosts: list[str]) -> None:
        from cryptography import x509
        from cryptography.x509.oid import ExtendedKeyUsageOID

        key = _new_key()
        kind = ExtendedKeyUsageOID.SERVER_AUTH if hosts else ExtendedKeyUsageOID.CLIENT_AUTH
        built = self._builder(_name(common_name), self._cert.subject, key)
        built = built.add_extension(x509.BasicConstraints(ca=False, path_length=None), True)
        built = built.add_extension(x509.ExtendedKeyUsage([kind]), False).add_extension(_usage(signs=False), True)
        signer = self._cert.public_key()
        built = built.add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer), False)  # type: ignore[arg-type]
        if hosts:
            built = built.add_extension(x509.SubjectAlternativeName([_host(one) for one in hosts]), False)
        self._write(file, key, built, self._key)

    def _builder(self, subject: x509.Name, issuer: x509.Name, key: EllipticCurvePrivateKey) -> x509.CertificateBuilder:
        from cryptography import x509

        now = datetime.now(UTC)
        return (
            x509.CertificateBuilder(issuer, subject, key.public_key(), x509.random_serial_number())
            .not_valid_before(now - _BACK)
            .not_valid_after(now + timedelta(days=self._days))
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), False)
        )

    def _write(self, file: str, key: EllipticCurvePrivateKey, built: x509.CertificateBuilder, signer: object) -> None:
        """The key is for its owner's eyes alone. Both are put in place whole, for a node that looks at them."""
        from cryptography.hazmat.primitives.hashes import SHA256
        from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

        secret = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        shown = built.sign(signer, SHA256()).public_bytes(Encoding.PEM)  # type: ignore[arg-type]
        for name, data, mode in ((f"{file}.key", secret, 0o600), (f"{file}.crt", shown, 0o644)):
            aside = self._out / f"{name}.new"
            with os.fdopen(os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode), "wb") as opened:
                opened.write(data)
            aside.replace(self._out / name)


def _new_key() -> EllipticCurvePrivateKey:
    from cryptography.hazmat.primitives.asymmetric import ec

    return ec.generate_private_key(ec.SECP256R1())


def _name(common_name: str) -> x509.Name:
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _host(text: str) -> x509.GeneralName:
    from cryptography import x509

    try:
        return x509.IPAddress(ipaddress.ip_address(text))
    except ValueError:
        return x509.DNSName(text)


def _usage(signs: bool) -> x509.KeyUsage:
    from cryptography import x509

    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs,
        crl_sign=signs,
        encipher_only=False,
        decipher_only=False,
    )
