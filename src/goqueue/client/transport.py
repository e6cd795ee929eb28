"""What both clients know about HTTP: the address, time limits, and what a failure of the connection means."""

from __future__ import annotations

from typing import Any, Final

import httpx

from goqueue.client import checks
from goqueue.client.calls import RestCall
from goqueue.client.errors import ConnectionFailed, GoQueueClientError, TimedOut
from goqueue.client.tail import SILENCE_SECONDS_MAX

DEFAULT_URL: Final = "http://127.0.0.1:8080"
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
    if parsed.scheme not in ("http", "https") or not parsed.host:
        raise _invalid_url(url, "no http:// or https:// and host")
    if parsed.query or parsed.fragment:
        raise _invalid_url(url, "something follows the path")
    return url.rstrip("/")


def _invalid_url(url: str, why: str) -> GoQueueClientError:
    return GoQueueClientError(
        "invalid-url", f"{url!r} is not a server's address ({why}); write it like {DEFAULT_URL}.", "url"
    )


def client_options(url: str, timeout: float) -> dict[str, Any]:
    """Arguments of either httpx client. Proxy variables are not read: a broker is spoken to directly."""
    checks.seconds(timeout, "timeout")
    return {
        "base_url": check_url(url),
        "timeout": httpx.Timeout(timeout, connect=min(timeout, _CONNECT_SECONDS), pool=None),
        "limits": httpx.Limits(keepalive_expiry=_KEEPALIVE_SECONDS),
        "trust_env": False,
    }


def request_options(call: RestCall[Any], timeout: float) -> dict[str, Any]:
    """Arguments of one request. A read that waits at the broker gets that much more time."""
    headers = {**call.headers, "content-type": "application/json"} if call.body is not None else dict(call.headers)
    return {
        "method": call.method,
        "url": call.path,
        "params": dict(call.query) or None,
        "headers": headers,
        "content": call.body,
        "timeout": _timeout(timeout, timeout + call.wait_seconds),
    }


def stream_options(call: RestCall[Any], timeout: float) -> dict[str, Any]:
    """Arguments of a request whose answer goes on for ever."""
    return request_options(call, timeout) | {"timeout": _timeout(timeout, SILENCE_SECONDS_MAX)}


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
