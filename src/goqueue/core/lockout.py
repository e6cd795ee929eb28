"""Who guesses passwords has to wait: after some wrong attempts of one host for one name, longer with every further."""

from __future__ import annotations

import ipaddress
from collections import OrderedDict
from typing import Final, TypeAlias

import msgspec

from goqueue.base.ids import Millis
from goqueue.base.limits import FAILURES_FREE, LOCKOUT_MS, LOCKOUT_MS_MAX, LOCKOUTS_MAX

Attempt: TypeAlias = tuple[str, str]  # name and network
_OWN_BITS: Final = 64  # of an IPv6 address: whoever has one address has all that begin like it


def network_of(host: str) -> str:
    """What counts as one place: an IPv4 address, or all IPv6 addresses of one network."""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if isinstance(address, ipaddress.IPv4Address):
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ipaddress.IPv6Network((address, _OWN_BITS), strict=False))


class _Failures(msgspec.Struct, frozen=True):
    count: int
    until_ms: Millis


class Lockout:
    """Remembers so many; the one that failed the longest ago is forgotten first. Those that have to wait are apart, so
    that failing for many other names does not make them forgotten. Times only have to grow."""

    def __init__(self, most: int = LOCKOUTS_MAX) -> None:
        self._most = most
        self._failed: OrderedDict[Attempt, _Failures] = OrderedDict()
        self._waiting: OrderedDict[Attempt, _Failures] = OrderedDict()

    def waits_ms(self, attempt: Attempt, now_ms: Millis) -> Millis:
        """How long until it may try again; 0 if it may now."""
        found = self._waiting.get(attempt)
        return 0 if found is None else max(0, found.until_ms - now_ms)

    def failed(self, attempt: Attempt, now_ms: Millis) -> None:
        before = self._failed.pop(attempt, None) or self._waiting.pop(attempt, None)
        count = 1 if before is None or self._is_forgiven(before, now_ms) else before.count + 1
        beyond = count - FAILURES_FREE
        wait_ms = min(LOCKOUT_MS << min(beyond, 16), LOCKOUT_MS_MAX) if beyond >= 0 else 0
        table = self._waiting if wait_ms else self._failed
        table[attempt] = _Failures(count, now_ms + wait_ms)
        if len(table) > self._most:
            table.popitem(last=False)

    @staticmethod
    def _is_forgiven(before: _Failures, now_ms: Millis) -> bool:
        """Nothing went wrong for ten times the longest wait."""
        return now_ms - before.until_ms > 10 * LOCKOUT_MS_MAX

    def succeeded(self, attempt: Attempt) -> None:
        self._failed.pop(attempt, None)
        self._waiting.pop(attempt, None)
