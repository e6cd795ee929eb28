"""AWS Signature v4: who asks is who can sign. In the header, or in the query of a link (presigned)."""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from typing import Final, NamedTuple, TypeVar
from urllib.parse import quote, unquote

from starlette.types import Scope

from goqueue.base.errors import CredentialsMissing
from goqueue.base.ids import Millis
from goqueue.edge.security.http_login import HttpLogin
from goqueue.edge.sqs.errors import SqsError
from goqueue.service.api_keys import ApiKeys
from goqueue.service.authentication import Authentication
from goqueue.service.principals import Principal

T = TypeVar("T")

_ALGORITHM: Final = "AWS4-HMAC-SHA256"
_PARTS: Final = re.compile(r"\s*(Credential|SignedHeaders|Signature)=([^,\s]+)\s*")
_SCOPE: Final = re.compile(r"([A-Z0-9]{1,64})/([0-9]{8})/([a-z0-9-]{1,64})/([a-z0-9-]{1,64})/aws4_request")
_SIGNATURE: Final = re.compile(r"[0-9a-f]{64}")
_TIME: Final = "%Y%m%dT%H%M%SZ"
_WRITTEN_TIME: Final = re.compile(r"[0-9]{8}T[0-9]{6}Z")
_SECONDS: Final = re.compile(r"[0-9]{1,6}")
_HEADERS: Final = re.compile(r"[!-~]+")
_LINK_S_MAX: Final = 7 * 24 * 3_600
_WRONG: Final = (
    "The request signature we calculated does not match the signature you provided. Check your AWS Secret Access Key "
    "and signing method."
)


class Signed(NamedTuple):
    """What a request says about its signature."""

    credential: str
    headers: list[str]
    signature: str
    time: str
    expires_s: int | None = None  # of a link


class SqsLogin:
    """Of the door of SQS."""

    def __init__(self, login: HttpLogin, who: Authentication) -> None:
        self._login = login
        self._keys: ApiKeys = who.keys
        self._now_ms = who.principals.now_ms
        self._skew_ms = who.settings.clock_skew_ms

    async def serve(self, scope: Scope, body: bytes, work: Callable[[], Awaitable[T]]) -> T:
        return await self._login.as_one(self._identity(scope, body), scope, work)

    def _identity(self, scope: Scope, body: bytes) -> Principal:
        signed = _read(scope)
        if signed is None:
            return self._certified(scope)
        credential = _SCOPE.fullmatch(signed.credential)
        if credential is None or _SIGNATURE.fullmatch(signed.signature) is None or not all(signed.headers):
            raise SqsError("IncompleteSignature", "The credential or the signature is not of the form that it has.")
        key = self._keys.signer(credential[1])
        if key is None:
            raise SqsError("InvalidClientTokenId", "The security token included in the request is invalid.")
        self._check_time(signed, credential[2])
        wanted = _signature(self._keys.secret_of(key), credential, signed, _canonical(scope, body, signed))
        if not hmac.compare_digest(wanted, signed.signature):
            raise SqsError("SignatureDoesNotMatch", _WRONG)
        return self._keys.used(key)

    def _certified(self, scope: Scope) -> Principal:
        try:
            return self._login.certified(scope)
        except CredentialsMissing:
            raise SqsError("MissingAuthenticationToken", "Request is missing Authentication Token") from None

    def _check_time(self, signed: Signed, date: str) -> None:
        try:
            if _WRITTEN_TIME.fullmatch(signed.time) is None:
                raise ValueError
            at_ms: Millis = int(datetime.strptime(signed.time, _TIME).replace(tzinfo=UTC).timestamp() * 1000)
        except ValueError:
            raise SqsError("IncompleteSignature", "The date is not of the form 20260131T235959Z.") from None
        if not signed.time.startswith(date):
            raise SqsError("SignatureDoesNotMatch", "The date in the credential is not that of the request.")
        late_ms = self._skew_ms if signed.expires_s is None else signed.expires_s * 1000
        now_ms = self._now_ms()
        if at_ms > now_ms + self._skew_ms:
            raise SqsError("SignatureDoesNotMatch", f"Signature not yet current: {signed.time} is in the future.")
        if at_ms + late_ms < now_ms:
            raise SqsError("SignatureDoesNotMatch", f"Signature expired: {signed.time} is too long ago.")


# --- what is said ---------------------------------------------------------------------------------------------


def _read(scope: Scope) -> Signed | None:
    """None if nothing is signed."""
    headers = dict(scope["headers"])
    shown = headers.get(b"authorization", b"").decode("latin-1")
    if shown.startswith(_ALGORITHM + " "):
        found = dict(_PARTS.findall(shown[len(_ALGORITHM) :]))
        time = headers.get(b"x-amz-date", b"").decode("latin-1")
        return _signed(found.get("Credential"), found.get("SignedHeaders"), found.get("Signature"), time)
    query = {name: unquote(value) for name, value in _query(scope)}
    if query.get("X-Amz-Algorithm") != _ALGORITHM:
        return None
    expires = query.get("X-Amz-Expires", "")
    if _SECONDS.fullmatch(expires) is None or not 0 < int(expires) <= _LINK_S_MAX:
        raise SqsError("IncompleteSignature", "X-Amz-Expires is a number of seconds, at most a week.")
    credential, signature = query.get("X-Amz-Credential"), query.get("X-Amz-Signature")
    return _signed(credential, query.get("X-Amz-SignedHeaders"), signature, query.get("X-Amz-Date", ""), int(expires))


def _signed(
    credential: str | None, headers: str | None, signature: str | None, time: str, expires_s: int | None = None
) -> Signed:
    if not credential or not headers or not signature or not time:
        raise SqsError("IncompleteSignature", "Credential, SignedHeaders, Signature and X-Amz-Date have to be there.")
    if _HEADERS.fullmatch(headers) is None:
        raise SqsError("IncompleteSignature", "SignedHeaders are names of headers.")
    return Signed(credential, headers.lower().split(";"), signature, time, expires_s)


def _query(scope: Scope) -> list[tuple[str, str]]:
    """As they were written: what is signed is what was sent."""
    text = scope["query_string"].decode("latin-1")
    return [(name, value) for name, _, value in (one.partition("=") for one in text.split("&") if one)]


# --- what is signed -------------------------------------------------------------------------------------------


def _canonical(scope: Scope, body: bytes, signed: Signed) -> str:
    headers = _headers(scope)
    unsigned = {"host", *(name for name in headers if name.startswith("x-amz-"))} - set(signed.headers)
    if unsigned:
        raise SqsError("SignatureDoesNotMatch", f"These headers have to be signed: {', '.join(sorted(unsigned))}.")
    digest = hashlib.sha256(body).hexdigest()
    if headers.get("x-amz-content-sha256", digest) != digest:
        raise SqsError("SignatureDoesNotMatch", "The body is not the one that was signed.")
    query = sorted(pair for pair in _query(scope) if pair[0] != "X-Amz-Signature")
    path = scope.get("raw_path", scope["path"].encode()).decode("latin-1").partition("?")[0]
    return "\n".join(
        (
            scope["method"],
            quote(path, safe="/~"),
            "&".join(f"{name}={value}" for name, value in query),
            "".join(f"{name}:{headers.get(name, '')}\n" for name in signed.headers),
            ";".join(signed.headers),
            digest,
        )
    )


def _headers(scope: Scope) -> Mapping[str, str]:
    found: dict[str, str] = {}
    for name, value in scope["headers"]:
        text = " ".join(value.decode("latin-1").split())
        known = name.decode("latin-1")
        found[known] = f"{found[known]},{text}" if known in found else text
    return found


def _signature(secret: str, credential: re.Match[str], signed: Signed, canonical: str) -> str:
    key = f"AWS4{secret}".encode()
    for part in (*credential.groups()[1:], "aws4_request"):
        key = hmac.digest(key, part.encode(), "sha256")
    about = credential.string.partition("/")[2]
    text = "\n".join((_ALGORITHM, signed.time, about, hashlib.sha256(canonical.encode("latin-1")).hexdigest()))
    return hmac.digest(key, text.encode("latin-1"), "sha256").hex()
