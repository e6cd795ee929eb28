"""Passwords as SCRAM stores them (RFC 5802): a salted verifier for each mechanism, made as Kafka's clients make it."""

from __future__ import annotations

import hashlib
import hmac
from base64 import b64decode, b64encode
from typing import Final

from goqueue.base.errors import InvalidField
from goqueue.base.limits import PASSWORD_CHARS_MAX, PASSWORD_CHARS_MIN, SCRAM_ITERATIONS
from goqueue.core.cluster.records import ScramVerifier

SCRAM: Final = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}  # the hash of each mechanism
SALT_BYTES: Final = 24


def check_password(password: str) -> str:
    """A password that somebody chooses; `InvalidField` says what is wrong with it."""
    if not PASSWORD_CHARS_MIN <= len(password) <= PASSWORD_CHARS_MAX:
        raise InvalidField(f"A password has {PASSWORD_CHARS_MIN} to {PASSWORD_CHARS_MAX} characters.", field="password")
    return password


def verifier(mechanism: str, password: str, salt: bytes, iterations: int = SCRAM_ITERATIONS) -> ScramVerifier:
    """Takes some ten milliseconds; not for the loop."""
    salted = hashlib.pbkdf2_hmac(SCRAM[mechanism], password.encode(), salt, iterations)
    return verifier_of_salted(mechanism, salted, salt, iterations)


def verifier_of_salted(mechanism: str, salted: bytes, salt: bytes, iterations: int) -> ScramVerifier:
    """Of a password that a client has salted and hashed already."""
    kind = SCRAM[mechanism]
    stored = hashlib.new(kind, hmac.digest(salted, b"Client Key", kind)).digest()
    server = hmac.digest(salted, b"Server Key", kind)
    return ScramVerifier(_text(salt), _text(stored), _text(server), iterations)


def digest_bytes(mechanism: str) -> int:
    return hashlib.new(SCRAM[mechanism]).digest_size


def proves(held: ScramVerifier, mechanism: str, password: str) -> bool:
    """Whether the password is the one that the verifier was made of. Takes as long as making one."""
    made = verifier(mechanism, password, b64decode(held.salt), held.iterations)
    return hmac.compare_digest(made.stored_key, held.stored_key)


def pretended(mechanism: str, name: str, seed: bytes) -> ScramVerifier:
    """Of a user that is not there: the same for every attempt, and no password fits. From outside it looks like one."""
    kind = SCRAM[mechanism]
    salt = hmac.digest(seed, f"salt {mechanism} {name}".encode(), "sha512")[:SALT_BYTES]
    nothing = hmac.digest(seed, f"nobody {mechanism} {name}".encode(), kind)
    return ScramVerifier(_text(salt), _text(nothing), _text(nothing), SCRAM_ITERATIONS)


def _text(value: bytes) -> str:
    return b64encode(value).decode("ascii")
