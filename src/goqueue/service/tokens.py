"""Signed tokens (JWT) of an issuer that the operator trusts: its keys come from a file or from a URL."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any, Final

from goqueue.base.limits import MIB, TOKEN_CHARS_MAX
from goqueue.base.security_settings import SecuritySettings
from goqueue.base.startup_errors import NeedsExtra, TlsUnusable
from goqueue.drive.offload import Offload
from goqueue.service.api_keys import refused
from goqueue.service.principals import Principal, is_principal

logger = logging.getLogger(__name__)

# Signatures by keys that are not secret here. `none` and those by shared secrets are no choice.
ALGORITHMS: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
_LEEWAY_S: Final = 30  # of clocks that differ
_KEYS_BYTES_MAX: Final = 1 * MIB
_FETCH_S: Final = 10.0  # for all of it
_FETCH_EVERY_S: Final = 300.0
_LOOK_EVERY_S: Final = 10.0  # at a file
_TIMES_END_S: Final = 1 << 40


class SignedTokens:
    """`check` is asked on the loop; keys are read off it."""

    def __init__(self, settings: SecuritySettings, offload: Offload) -> None:
        self._settings = settings
        self._offload = offload
        self._keys: Any = None
        self._looked_s = 0.0
        self._seen: object = None

    async def start(self) -> None:
        """`NeedsExtra` if the package is missing that reads tokens; `TlsUnusable` if there are no keys in the file."""
        try:
            import joserfc  # noqa: F401
        except ModuleNotFoundError:
            raise NeedsExtra("Signed tokens need another package: pip install 'goqueue[security]'.") from None
        try:
            await self._load()
        except OSError as error:
            if not self._is_url:
                raise TlsUnusable(f"security.oauth_keys: {self._settings.oauth_keys}: {error}") from None
            logger.warning("the issuer's keys cannot be fetched yet", extra={"error": str(error)})

    @property
    def _is_url(self) -> bool:
        return self._settings.oauth_keys.startswith(("https://", "http://"))

    async def look(self) -> None:
        """Now and then: takes over keys that were changed. Keys that cannot be read leave those before in place."""
        if time.monotonic() - self._looked_s >= (_FETCH_EVERY_S if self._is_url and self._keys else _LOOK_EVERY_S):
            try:
                await self._load()
            except OSError as error:
                logger.warning("the issuer's keys cannot be read; the old ones hold", extra={"error": str(error)})

    async def _load(self) -> None:
        """`OSError` for all that can be wrong with keys."""
        self._looked_s = time.monotonic()
        text = await (self._fetch() if self._is_url else self._offload(self._read))
        if len(text) > _KEYS_BYTES_MAX:
            raise OSError(f"more than {_KEYS_BYTES_MAX} bytes")
        if text != self._seen:
            self._keys, self._seen = _key_set(text), text

    def _read(self) -> bytes:
        with Path(self._settings.oauth_keys).open("rb") as file:
            return file.read(_KEYS_BYTES_MAX + 1)

    async def _fetch(self) -> bytes:
        """However slowly it comes, and however much: within bounds."""
        import httpx

        try:
            async with (
                asyncio.timeout(_FETCH_S),
                httpx.AsyncClient(timeout=_FETCH_S, trust_env=False) as client,
                client.stream("GET", self._settings.oauth_keys) as answer,
            ):
                return await _bounded(answer.raise_for_status().aiter_bytes())
        except (httpx.HTTPError, httpx.InvalidURL, TimeoutError) as error:
            raise OSError(str(error) or "it took too long") from None

    def check(self, token: str) -> Principal:
        """`CredentialsRefused` unless the issuer signed it, for us, and it holds now."""
        if len(token) > TOKEN_CHARS_MAX or self._keys is None:
            raise refused()
        claims = self._claims(token)
        name, until = claims.get(self._settings.oauth_claim), claims.get("exp")
        if not isinstance(name, str) or not is_principal(name) or not isinstance(until, int | float):
            raise refused()
        if not 0 < until < _TIMES_END_S:
            raise refused()
        return Principal(name, expires_ms=int(until * 1000))

    def _claims(self, token: str) -> Mapping[str, Any]:
        from joserfc import jwt
        from joserfc.errors import JoseError

        try:
            claims: dict[str, Any] = jwt.decode(token, self._keys, algorithms=list(ALGORITHMS)).claims
            self._registry().validate(claims)
        except (JoseError, ValueError, TypeError, KeyError, RecursionError):
            raise refused() from None
        return claims

    def _registry(self) -> Any:
        from joserfc.jwt import JWTClaimsRegistry

        wanted: dict[str, Any] = {"exp": {"essential": True}}
        if self._settings.oauth_issuer:
            wanted["iss"] = {"essential": True, "value": self._settings.oauth_issuer}
        if self._settings.oauth_audience:
            wanted["aud"] = {"essential": True, "value": self._settings.oauth_audience}
        return JWTClaimsRegistry(leeway=_LEEWAY_S, **wanted)


async def _bounded(parts: AsyncIterator[bytes]) -> bytes:
    found = b""
    async for part in parts:
        found += part
        if len(found) > _KEYS_BYTES_MAX:
            break
    return found


def _key_set(text: bytes) -> Any:
    """Those for signatures that are known here; what else is published counts for nothing."""
    from joserfc.errors import JoseError
    from joserfc.jwk import KeySet

    try:
        found = json.loads(text)
        known = [one for one in found["keys"] if one.get("kty") != "oct" and one.get("use", "sig") == "sig"]
        return KeySet.import_key_set({"keys": known})
    except (JoseError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise OSError(f"these are no keys (JWKS): {type(error).__name__}") from None
