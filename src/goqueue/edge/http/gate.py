"""Who may ask: requests to a known host, from programs and from this node's own page.

A browser lets any site send requests to any address. It names the site in `Origin` or `Sec-Fetch-Site`, so those of
other sites are told apart and refused. A site that makes its own name point at this node (DNS rebinding) looks like the
node's own page, so only known names are served. An address written as a number needs no name and cannot be rebound.
"""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Iterable
from typing import Final

from starlette.types import Scope

from goqueue.base.errors import ForeignOrigin, MalformedRequest, UnknownHost

_KNOWN_MAX: Final = 1_000
_HOST: Final = re.compile(rb"(?:\[([0-9a-fA-F:.]{2,45})\]|([A-Za-z0-9._-]{1,255}))(?::\d{0,5})?")
_AUTHORITY: Final = re.compile(rb"[a-zA-Z][a-zA-Z0-9+.-]*://([^/?#]*)")
_OWN_SITES: Final = (b"same-origin", b"none")
_SAFE: Final = ("GET", "HEAD", "OPTIONS")
_SIGNED: Final = b"AWS4-HMAC-SHA256 "
_LOCAL: Final = ("localhost", "*.localhost", "host.docker.internal", "host.containers.internal")


class Gate:
    """One door's. `setting` is what to change to be served under another name."""

    def __init__(self, allowed: str, listen_host: str, setting: str) -> None:
        named = [name.strip().lower().rstrip(".") for name in allowed.split(",") if name.strip()]
        self._names = {*named, *_LOCAL, listen_host.lower(), socket.gethostname().lower().rstrip(".")}
        self._sites = {name.encode() for name in named if "*" not in name}
        self._setting = setting
        self._known: set[bytes] = set()  # hosts that passed, as they were written

    def check(self, scope: Scope) -> None:
        """Raises `MalformedRequest`, `UnknownHost` or `ForeignOrigin`."""
        hosts: list[bytes] = []
        origin = site = mode = None
        for name, value in scope["headers"]:
            if name == b"host":
                hosts.append(value)
            elif name == b"origin":
                origin = value
            elif name == b"sec-fetch-site":
                site = value
            elif name == b"sec-fetch-mode":
                mode = value
        host = self._check_host(hosts, scope)
        if origin is not None and not self._is_own(origin, host):
            raise _foreign()
        if site is not None and site not in _OWN_SITES and not (mode == b"navigate" and scope["method"] in _SAFE):
            raise _foreign()

    def _check_host(self, hosts: list[bytes], scope: Scope) -> bytes:
        if len(hosts) > 1 or (not hosts and scope["http_version"] == "1.1"):
            raise MalformedRequest("A request has exactly one Host header.")
        host = hosts[0] if hosts else b""
        if host and host not in self._known:
            self._check_name(host)
            if len(self._known) < _KNOWN_MAX:
                self._known.add(host)
        return host

    def _check_name(self, host: bytes) -> None:
        found = _HOST.fullmatch(host)
        if found is None:
            raise MalformedRequest("The Host header is not a host.")
        name = (found[1] or found[2]).decode().lower().rstrip(".")
        if not (_is_address(name) or self._is_named(name)):
            raise UnknownHost(
                f"This node does not know itself as {name}. Use its address, or add the name to {self._setting}."
            )

    def _is_named(self, name: str) -> bool:
        parts = name.split(".")
        above = {"*." + ".".join(parts[at:]) for at in range(1, len(parts))}
        return not self._names.isdisjoint({name, "*", *above})

    def _is_own(self, origin: bytes, host: bytes) -> bool:
        """The site that is asked, or one that the settings name (a proxy may ask under another name)."""
        site = origin.rpartition(b"//")[2].lower()
        return site == host.lower() or site.partition(b":")[0] in self._sites


def refuse_other_sites(headers: Iterable[tuple[bytes, bytes]]) -> None:
    """For a GET that takes something away: a page can send it as an image or a link.

    Browsers say nothing about the site in such requests to an address that is neither encrypted nor local. So a browser
    has to say that the request is this page's or its user's own. What is signed comes from a program, whatever it calls
    itself (kombu's is "Mozilla/5.0 (compatible; pycurl)"): a page cannot add that header to an image or a link.
    """
    found = dict(headers)
    site, agent = found.get(b"sec-fetch-site"), found.get(b"user-agent", b"")
    is_browser = agent.startswith(b"Mozilla/") and not found.get(b"authorization", b"").startswith(_SIGNED)
    if site not in _OWN_SITES and (site is not None or is_browser):
        raise _foreign()


def is_same_host(url: bytes, host: bytes | None) -> bool:
    """Whether a request that names its host in the line and in the header names the same one."""
    found = _AUTHORITY.match(url)
    return found is None or (host is not None and found[1].lower() == host.lower())


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _foreign() -> ForeignOrigin:
    return ForeignOrigin(
        "A page of another site may not do this here; send the request from a program or from this node's page."
    )
