"""What both clients know about addresses and HTTP: time limits, and what a failure of the connection means."""

from __future__ import annotations

import os
import ssl
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import httpx
import msgspec

from goqueue.base.client_tls import TlsFileUnusable, client_context
from goqueue.client import checks
from goqueue.client.calls import RestCall, body_of
from goqueue.client.errors import ConnectionFailed, GoQueueClientError, TimedOut, invalid
from goqueue.client.tail import SILENCE_SECONDS_MAX

DEFAULT_URL: Final = "http://127.0.0.1:8080"
GRPC_TLS: Final = "grpcs://"
_GRPC: Final = ("grpc", "grpcs")
_GRPC_PORT: Final = 9000
DEFAULT_TIMEOUT: Final = 30.0
DEFAULT_PATIENCE: Final = 60.0
_CONNECT_SECONDS: Final = 5.0
# Shorter than servers keep an idle connection, so that a request never meets one that is just being closed.
_KEEPALIVE_SECONDS: Final = 3.0


def check_url(url: str) -> str:
    """The address without a slash at its end; `invalid-url` if it cannot be one."""
    checks.text(url, "url")
    try:
        parsed = httpx.URL(url)
    except (httpx.InvalidURL, ValueError) as error:
        raise _invalid_url(url, str(error)) from None
    if parsed.scheme not in ("http", "https", *_GRPC) or not parsed.host:
        raise _invalid_url(url, "no http://, https://, grpc:// or grpcs:// and host")
    if parsed.scheme in _GRPC and parsed.path.strip("/"):
        raise _invalid_url(url, "something follows the port")
    if parsed.query or parsed.fragment:
        raise _invalid_url(url, "something follows the path")
    return url.rstrip("/")


def is_grpc(url: str) -> bool:
    return url.partition(":")[0] in _GRPC


@lru_cache(64)
def host_of(url: str) -> str:
    return httpx.URL(url).host


def grpc_target(url: str) -> str:
    """Host and port, as gRPC wants them."""
    parsed = httpx.URL(url)
    return parsed.netloc.decode() if parsed.port else f"{parsed.netloc.decode()}:{_GRPC_PORT}"


def _invalid_url(url: str, why: str) -> GoQueueClientError:
    return GoQueueClientError(
        "invalid-url", f"{url!r} is not a server's address ({why}); write it like {DEFAULT_URL}.", "url"
    )


class ClientIdentity(msgspec.Struct, frozen=True):
    """Who asks, an API key's token or `user:password`, and whom it trusts; the files of a certificate that it shows."""

    key: str = ""
    ca_file: str = ""
    cert_file: str = ""
    cert_key_file: str = ""


def client_options(timeout: float, identity: ClientIdentity) -> dict[str, Any]:
    """Arguments of either httpx client. Proxy variables are not read: a broker is spoken to directly."""
    return {
        **_identity_options(identity),
        "timeout": httpx.Timeout(timeout, connect=min(timeout, _CONNECT_SECONDS), pool=None),
        "limits": httpx.Limits(keepalive_expiry=_KEEPALIVE_SECONDS),
        "trust_env": False,
    }


def identity_of(key: str | None, ca_file: str | None, cert: str | tuple[str, str] | None = None) -> ClientIdentity:
    """The environment names what is not given: GOQUEUE_KEY or GOQUEUE_KEY_FILE, GOQUEUE_CA_FILE, GOQUEUE_CERT_FILE and
    GOQUEUE_CERT_KEY_FILE. The private key may be in the certificate's file."""
    shown = key or os.environ.get("GOQUEUE_KEY") or _first_line(os.environ.get("GOQUEUE_KEY_FILE", ""))
    named = cert or (os.environ.get("GOQUEUE_CERT_FILE", ""), os.environ.get("GOQUEUE_CERT_KEY_FILE", ""))
    cert_file, cert_key_file = (named, "") if isinstance(named, str) else named
    if cert_key_file and not cert_file:
        raise invalid(
            f"{cert_key_file} is the private key of a certificate; name that too, by cert or GOQUEUE_CERT_FILE.", "cert"
        )
    authority = ca_file or os.environ.get("GOQUEUE_CA_FILE", "")
    return ClientIdentity(shown, authority, cert_file, cert_key_file or cert_file)


def tls_context(identity: ClientIdentity) -> ssl.SSLContext:
    try:
        return client_context(identity.ca_file, identity.cert_file, identity.cert_key_file)
    except TlsFileUnusable as error:
        field = "ca_file" if error.files == identity.ca_file else "cert"
        raise invalid(f"{error}; files are in PEM, and a private key is not encrypted.", field) from None


def _identity_options(identity: ClientIdentity) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if ":" in identity.key:
        found["auth"] = httpx.BasicAuth(*identity.key.split(":", 1))
    elif identity.key:
        found["headers"] = {"authorization": f"Bearer {identity.key}"}
    if identity.ca_file or identity.cert_file:
        found["verify"] = tls_context(identity)
    return found


def _first_line(file: str) -> str:
    return Path(file).read_text("utf-8").partition("\n")[0].strip() if file else ""


def request_options(address: str, call: RestCall[Any], timeout: float) -> dict[str, Any]:
    """Arguments of one request. A read that waits at the broker gets that much more time."""
    body = body_of(call)
    headers = {**call.headers, "content-type": "application/json"} if body is not None else dict(call.headers)
    return {
        "method": call.method,
        "url": address + call.path,
        "params": dict(call.query) or None,
        "headers": headers,
        "content": body,
        "timeout": _timeout(timeout, timeout + call.wait_seconds),
    }


def stream_options(address: str, call: RestCall[Any], timeout: float) -> dict[str, Any]:
    """Arguments of a request whose answer goes on for ever."""
    return request_options(address, call, timeout) | {"timeout": _timeout(timeout, SILENCE_SECONDS_MAX)}


def _timeout(timeout: float, read: float) -> httpx.Timeout:
    return httpx.Timeout(timeout, connect=min(timeout, _CONNECT_SECONDS), read=read, pool=None)


def failure_of(why: httpx.HTTPError, url: str) -> ConnectionFailed:
    """The client's word for a request without an answer."""
    if isinstance(why, httpx.ConnectError | httpx.ConnectTimeout):
        reason = str(why) or "no answer in time"
        detail = f"Cannot reach {url} ({reason}). Start a broker with `goqueue serve`, or check the address."
        return ConnectionFailed(detail, may_have_arrived=False)
    if isinstance(why, httpx.TimeoutException):
        return TimedOut(f"{url} did not answer in time; the request may have been done. Look before repeating it.")
    detail = f"The connection to {url} broke ({why}); the request may have been done. Look before repeating it."
    return ConnectionFailed(detail, may_have_arrived=True, code="connection-lost")


def stream_ended(url: str) -> ConnectionFailed:
    """A tail's connection that was closed in good order; the broker is stopping."""
    return ConnectionFailed(f"{url} closed the stream.", may_have_arrived=True, code="connection-lost")
