"""What two nodes prove to each other before anything else is read: that both know the cluster's secret.

Who is called sends a number that it never used before. Who calls answers with one of its own and a keyed digest of
both; the digest of who is called comes last. Neither sends the secret, and neither can use what the other sent: digests
of the two sides differ. Several secrets may be known at a time, so that one can follow another; the first is used.
"""

from __future__ import annotations

import hmac
from collections.abc import Sequence
from typing import Final

MAGIC: Final = b"GQnodes1"
NONCE_BYTES: Final = 32
PROOF_BYTES: Final = 32
_CALLER: Final = b"goqueue node that calls"
_CALLED: Final = b"goqueue node that is called"


class WrongProof(Exception):
    """The other side does not know the secret; the connection ends."""


def _digest(secret: bytes, side: bytes, called: bytes, caller: bytes) -> bytes:
    return hmac.digest(secret, side + called + caller, "sha256")


def _matching(secrets: Sequence[bytes], side: bytes, called: bytes, caller: bytes, proof: bytes) -> bytes:
    """The secret that was used. All are tried, in a time that does not depend on which it is."""
    found = b""
    for secret in secrets:
        if hmac.compare_digest(_digest(secret, side, called, caller), proof):
            found = secret
    if not found:
        raise WrongProof("it does not know the cluster's secret")
    return found


class CalledProof:
    """The side that is called: `greeting` goes out first. Fed what arrives, it has an `answer` once that is right."""

    def __init__(self, secrets: Sequence[bytes], nonce: bytes) -> None:
        self.greeting = MAGIC + nonce
        self.answer = b""
        self._secrets = secrets
        self._nonce = nonce
        self._held = b""

    def feed(self, data: bytes) -> bytes | None:
        """What follows the proof; None while that is not whole. `WrongProof` if it is not right."""
        self._held += data
        if len(self._held) < NONCE_BYTES + PROOF_BYTES:
            return None
        caller, rest = self._held[:NONCE_BYTES], self._held[NONCE_BYTES:]
        secret = _matching(self._secrets, _CALLER, self._nonce, caller, rest[:PROOF_BYTES])
        self.answer = _digest(secret, _CALLED, self._nonce, caller)
        return rest[PROOF_BYTES:]


class CallerProof:
    """The side that calls: it sends `answer` once it was greeted, and is `done` when the other has proved itself."""

    def __init__(self, secrets: Sequence[bytes], nonce: bytes) -> None:
        self.answer = b""
        self._secrets = secrets
        self._nonce = nonce
        self._called = b""
        self._held = b""

    def feed(self, data: bytes) -> bytes | None:
        """What follows the other side's proof; None while that is not whole. `WrongProof` if it is not right."""
        self._held += data
        if not self._called and len(self._held) >= len(MAGIC) + NONCE_BYTES:
            if not self._held.startswith(MAGIC):
                raise WrongProof("it does not ask for the cluster's secret")
            self._called = self._held[len(MAGIC) : len(MAGIC) + NONCE_BYTES]
            self._held = self._held[len(MAGIC) + NONCE_BYTES :]
            self.answer = self._nonce + _digest(self._secrets[0], _CALLER, self._called, self._nonce)
        if not self._called or len(self._held) < PROOF_BYTES:
            return None
        _matching(self._secrets, _CALLED, self._called, self._nonce, self._held[:PROOF_BYTES])
        return self._held[PROOF_BYTES:]
