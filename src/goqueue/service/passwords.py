"""Passwords that clients show: hashed off the loop, few at a time, so that who guesses them holds up nobody else."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
from collections import Counter, OrderedDict
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from goqueue.base.entropy import Entropy
from goqueue.base.errors import CredentialsRefused, Overloaded
from goqueue.base.ids import Millis
from goqueue.base.limits import (
    KNOWN_PASSWORDS_MAX,
    NAME_CHARS_MAX,
    PASSWORD_CHARS_MAX,
    PASSWORD_CHECKS_MAX,
    PASSWORD_CHECKS_PER_HOST_MAX,
    SECRET_BYTES,
)
from goqueue.core.cluster.image import Image
from goqueue.core.cluster.records import ScramVerifier, UserRecord
from goqueue.core.lockout import Lockout, network_of
from goqueue.service.api_keys import PREFIX, ApiKeys, refused
from goqueue.service.principals import Principal, Principals
from goqueue.service.scram import SCRAM, pretended, proves

_FIRST: Final = next(iter(SCRAM))


class Passwords:
    """`check` takes a name and a password, or the id and the secret of an API key."""

    def __init__(self, image: Image, principals: Principals, keys: ApiKeys, entropy: Entropy) -> None:
        self._image = image
        self._identities = principals
        self._keys = keys
        self._lockout = Lockout()
        self._secret = entropy.token(SECRET_BYTES)  # of this process: what is remembered tells nobody anything
        self._known: OrderedDict[bytes, UserRecord] = OrderedDict()
        self._hosts: Counter[str] = Counter()  # checks under way
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="passwords")

    def close(self) -> None:
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def check(self, name: str, password: str, host: str) -> Principal:
        """`CredentialsRefused`, for whatever reason, or `Overloaded`."""
        if len(name) > NAME_CHARS_MAX or len(password) > PASSWORD_CHARS_MAX:
            raise refused()
        if name.startswith(PREFIX):
            return self._keys.check(name, password)  # too long to guess: nobody has to wait
        self.check_lockout(name, host)
        try:
            found = await self._user(name, password, network_of(host))
        except CredentialsRefused:
            self.failed(name, host)
            raise
        self.succeeded(name, host)
        return found

    def check_lockout(self, name: str, host: str) -> None:
        """`CredentialsRefused` while it has to wait, right or wrong."""
        if self._lockout.waits_ms((name, network_of(host)), self._now_ms()):
            raise refused()

    def failed(self, name: str, host: str) -> None:
        self._lockout.failed((name, network_of(host)), self._now_ms())

    def succeeded(self, name: str, host: str) -> None:
        self._lockout.succeeded((name, network_of(host)))

    def _now_ms(self) -> Millis:
        return self._identities.now_ms()

    async def _user(self, name: str, password: str, host: str) -> Principal:
        found = self._identities.user(name)
        digest = hmac.digest(self._secret, f"{name}\0{password}".encode(), "sha256")
        if found is None or self._known.get(digest) is not found:
            await self._prove(name, password, host)
            found = self._identities.user(name)  # it may have gone meanwhile
            if found is None:
                raise refused()
            self._remember(digest, found)
        return self._identities.of_user(found)

    def _remember(self, digest: bytes, user: UserRecord) -> None:
        """Clients that show it with every request need not wait for every one. A changed user is another."""
        self._known[digest] = user
        if len(self._known) > KNOWN_PASSWORDS_MAX:
            self._known.popitem(last=False)

    async def _prove(self, name: str, password: str, host: str) -> None:
        mechanism, verifier = self.verifier(name)
        if self._hosts[host] >= PASSWORD_CHECKS_PER_HOST_MAX or self._hosts.total() >= PASSWORD_CHECKS_MAX:
            raise Overloaded("Too many passwords are being checked; try again in a moment.")
        self._hosts[host] += 1
        try:
            loop = asyncio.get_running_loop()
            is_right = await loop.run_in_executor(self._thread, proves, verifier, mechanism, password)
        finally:
            self._hosts[host] -= 1
            if not self._hosts[host]:
                del self._hosts[host]
        if not is_right:
            raise refused()

    def verifier(self, name: str, mechanism: str = "") -> tuple[str, ScramVerifier]:
        """Of a user, or of one that is pretended: it takes as long to check, and nothing fits."""
        user = self._identities.user(name)
        held = {} if user is None else user.scram
        chosen = mechanism or next(iter(held), _FIRST)
        return chosen, held.get(chosen) or pretended(chosen, name, self._image.security_seed or self._secret)


def fingerprint(text: str) -> str:
    """For logs: tells two apart, and tells nothing else."""
    return hashlib.sha256(text.encode()).hexdigest()[:8]
