"""Randomness as a port, so that a simulation can replay it from a seed."""

from __future__ import annotations

import secrets
import uuid
from typing import Protocol


class Entropy(Protocol):
    """A source of unguessable bytes."""

    def token(self, size: int) -> bytes: ...


class SystemEntropy:
    """The machine's entropy."""

    def token(self, size: int) -> bytes:
        return secrets.token_bytes(size)


def new_uuid(entropy: Entropy) -> str:
    """A random UUID (version 4) in its usual text form."""
    return str(uuid.UUID(bytes=entropy.token(16), version=4))
