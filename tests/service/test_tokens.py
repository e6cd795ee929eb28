"""Signed tokens: what is forged, has run out or is for another is refused; keys that cannot be had do no harm."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from joserfc import jwt
from joserfc.jwk import ECKey, KeySet, RSAKey

from goqueue.base.errors import CredentialsRefused
from goqueue.base.limits import TOKEN_CHARS_MAX
from goqueue.base.security_settings import SecuritySettings
from goqueue.base.startup_errors import TlsUnusable
from goqueue.service import tokens as module
from goqueue.service.tokens import SignedTokens
from tests.door.security.issuer import AUDIENCE, ISSUER, Issuer

pytestmark = pytest.mark.asyncio


async def at_once(work: Callable[[], Any]) -> Any:
    return work()


def made(keys: object) -> SignedTokens:
    settings = SecuritySettings(oauth_keys=str(keys), oauth_issuer=ISSUER, oauth_audience=AUDIENCE)
    return SignedTokens(settings, at_once)


@pytest.fixture(scope="module")
def issuer() -> Issuer:
    return Issuer()


@pytest_asyncio.fixture
async def tokens(issuer: Issuer, tmp_path: Path) -> SignedTokens:
    issuer.publish(tmp_path / "jwks")
    found = made(tmp_path / "jwks")
    await found.start()
    return found


def _part(value: object) -> str:
    return (
        base64.urlsafe_b64encode(value if isinstance(value, bytes) else json.dumps(value).encode()).decode().rstrip("=")
    )


async def test_a_token_says_who_and_how_long(tokens: SignedTokens, issuer: Issuer) -> None:
    found = tokens.check(issuer.token("tess", 600))
    assert found.principal == "tess"
    assert found.expires_ms is not None


@pytest.mark.parametrize(
    "claims",
    [
        {"exp": 1},
        {"exp": None},
        {"exp": "tomorrow"},
        {"exp": 1e300},
        {"iss": "https://other.example.org/"},
        {"iss": None},
        {"aud": "another"},
        {"aud": []},
        {"sub": ""},
        {"sub": None},
        {"sub": 7},
        {"sub": "x" * 250},
        {"sub": "anonymous"},
        {"sub": "a\nb"},
        {"nbf": 4_102_444_800},
    ],
    ids=str,
)
async def test_what_does_not_hold_is_refused(tokens: SignedTokens, issuer: Issuer, claims: dict[str, Any]) -> None:
    with pytest.raises(CredentialsRefused):
        tokens.check(issuer.token(**claims) if "sub" not in claims else issuer.token(claims["sub"]))


@pytest.mark.parametrize("alg", ["none", "None", "NONE", ""])
async def test_an_unsigned_token_is_refused(tokens: SignedTokens, issuer: Issuer, alg: str) -> None:
    for signature in ("", "."):
        forged = f"{_part({'alg': alg, 'kid': 'first'})}.{_part(issuer.claims())}.{signature}"
        with pytest.raises(CredentialsRefused):
            tokens.check(forged)


@pytest.mark.parametrize("secret", ["pem", "jwks", ""])
async def test_what_is_public_is_no_shared_secret(tokens: SignedTokens, issuer: Issuer, secret: str) -> None:
    keys = {"pem": issuer.key.as_pem(private=False), "jwks": issuer.public().encode(), "": b""}
    signed = f"{_part({'alg': 'HS256', 'kid': 'first'})}.{_part(issuer.claims())}"
    signature = hmac.digest(keys[secret], signed.encode(), hashlib.sha256)
    with pytest.raises(CredentialsRefused):
        tokens.check(f"{signed}.{_part(signature)}")


@pytest.mark.parametrize("kid", ["first", "other", "../../dev/null", 7, None, ["first"], {"a": 1}, "' OR 1=1"])
async def test_anothers_key_is_refused_whatever_it_is_called(tokens: SignedTokens, issuer: Issuer, kid: object) -> None:
    other = RSAKey.generate_key(2048)
    head: dict[str, Any] = {"alg": "RS256"} | ({} if kid is None else {"kid": kid})
    signed = jwt.encode({"alg": "RS256"}, issuer.claims(), other).split(".")
    with pytest.raises(CredentialsRefused):
        tokens.check(f"{_part(head)}.{signed[1]}.{signed[2]}")


@pytest.mark.parametrize("name", ["jwk", "jku", "x5u", "x5c"])
async def test_a_key_that_the_token_brings_along_counts_for_nothing(
    tokens: SignedTokens, issuer: Issuer, name: str
) -> None:
    other = RSAKey.generate_key(2048)
    brought = {"jwk": other.as_dict(private=False), "x5c": ["MIIB"]}.get(name, "https://evil.example.org/jwks")
    head = _part({"alg": "RS256", "kid": "first", name: brought})
    body = _part(issuer.claims())
    signature = jwt.encode({"alg": "RS256"}, issuer.claims(), other).split(".")[2]
    with pytest.raises(CredentialsRefused):
        tokens.check(f"{head}.{body}.{signature}")


async def test_another_algorithm_than_the_keys_is_refused(tokens: SignedTokens, issuer: Issuer) -> None:
    other = ECKey.generate_key("P-256")
    signed = jwt.encode({"alg": "ES256", "kid": "first"}, issuer.claims(), other)
    with pytest.raises(CredentialsRefused):
        tokens.check(signed)


@pytest.mark.parametrize(
    "token",
    [
        "",
        ".",
        "..",
        "a.b.c",
        "a" * (TOKEN_CHARS_MAX + 1),
        ".".join("a" * 1000 for _ in range(5)),
        f"{_part(b'[' * 8_000)}.e30.e30",
        _part(b'{"a":' * 2_000) + ".e30.e30",
        _part(b"\xff\xfe") + ".e30.e30",
        f"{_part([])}.e30.e30",
        f"{_part({'alg': ['RS256']})}.e30.e30",
        f"{_part({'alg': 'RS256', 'crit': ['b64'], 'b64': False, 'kid': 'first'})}.e30.e30",
        "\u00e9.\u00e9.\u00e9",
    ],
    ids=range(13),
)
async def test_what_is_no_token_is_refused(tokens: SignedTokens, token: str) -> None:
    with pytest.raises(CredentialsRefused):
        tokens.check(token)


# --- the issuer's keys ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["", "{}", "[]", "null", '{"keys": []}', '{"keys": 7}', '{"keys": [7]}', "[" * 9_000])
async def test_keys_that_are_none_keep_a_node_from_starting(tmp_path: Path, text: str) -> None:
    (tmp_path / "jwks").write_text(text)
    with pytest.raises(TlsUnusable, match="oauth_keys"):
        await made(tmp_path / "jwks").start()


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"keys": []}', '{"keys": [{}]}', "[" * 9_000, " " * (1 << 21)])
async def test_keys_that_are_none_leave_the_old_ones_in_place(
    tokens: SignedTokens, issuer: Issuer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    monkeypatch.setattr(module, "_LOOK_EVERY_S", 0)
    (tmp_path / "jwks").write_text(text)
    await tokens.look()
    assert tokens.check(issuer.token()).principal == "tess"


async def test_changed_keys_are_taken_over(
    tokens: SignedTokens, issuer: Issuer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_LOOK_EVERY_S", 0)
    second = Issuer("second")
    second.publish(tmp_path / "jwks")
    await tokens.look()
    assert tokens.check(second.token()).principal == "tess"
    with pytest.raises(CredentialsRefused):
        tokens.check(issuer.token())


async def test_a_shared_secret_among_the_keys_counts_for_nothing(tmp_path: Path, issuer: Issuer) -> None:
    keys = KeySet([issuer.key]).as_dict(private=False)
    secret = {"kty": "oct", "kid": "shared", "k": _part(b"0" * 32)}
    (tmp_path / "jwks").write_text(json.dumps({"keys": [secret, *keys["keys"]]}))
    found = made(tmp_path / "jwks")
    await found.start()
    assert found.check(issuer.token()).principal == "tess"
    signed = f"{_part({'alg': 'HS256', 'kid': 'shared'})}.{_part(issuer.claims())}"
    with pytest.raises(CredentialsRefused):
        found.check(f"{signed}.{_part(hmac.digest(b'0' * 32, signed.encode(), 'sha256'))}")


@asynccontextmanager
async def _served(head: bytes, parts: Callable[[asyncio.StreamWriter], Any]) -> AsyncIterator[str]:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(head)
            await parts(writer)
        except (ConnectionError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/jwks"
    finally:
        server.close()


OK = b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n"


async def test_keys_of_a_url(issuer: Issuer) -> None:
    async def whole(writer: asyncio.StreamWriter) -> None:
        writer.write(issuer.public().encode())

    async with _served(OK, whole) as url:
        found = made(url)
        await found.start()
    assert found.check(issuer.token()).principal == "tess"


async def test_an_issuer_that_drips_is_given_up(monkeypatch: pytest.MonkeyPatch, issuer: Issuer) -> None:
    monkeypatch.setattr(module, "_FETCH_S", 0.5)

    async def drips(writer: asyncio.StreamWriter) -> None:
        while True:
            writer.write(b" ")
            await writer.drain()
            await asyncio.sleep(0.05)

    async with _served(OK, drips) as url:
        found = made(url)
        await found.start()
    with pytest.raises(CredentialsRefused):
        found.check(issuer.token())


async def test_an_issuer_that_floods_is_given_up(issuer: Issuer) -> None:
    sent = 0

    async def floods(writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        while True:
            writer.write(b" " * 65_536)
            await writer.drain()
            sent += 65_536

    async with _served(OK, floods) as url:
        await made(url).start()
    assert sent < 64 << 20


@pytest.mark.parametrize(
    "head", [b"HTTP/1.1 500 Oh\r\n\r\n", b"HTTP/1.1 302 Go\r\nLocation: /x\r\n\r\n", b"nonsense\r\n"]
)
async def test_an_issuer_that_fails_keeps_nobody_from_starting(head: bytes, issuer: Issuer) -> None:
    async def nothing(_: asyncio.StreamWriter) -> None: ...

    async with _served(head, nothing) as url:
        found = made(url)
        await found.start()
        await found.look()
    with pytest.raises(CredentialsRefused):
        found.check(issuer.token())
