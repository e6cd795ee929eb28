"""An issuer of signed tokens."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

from joserfc import jwt
from joserfc.jwk import KeySet, RSAKey

ISSUER = "https://login.example.org/"
AUDIENCE = "goqueue"


class Issuer:
    """Has a pair of keys."""

    def __init__(self, kid: str = "first") -> None:
        self.key = RSAKey.generate_key(2048, {"kid": kid, "use": "sig", "alg": "RS256"})

    def public(self) -> str:
        """Its keys as everybody may have them (JWKS)."""
        return json.dumps(KeySet([self.key]).as_dict(private=False))

    def publish(self, file: Path) -> dict[str, str]:
        """Settings of a node that trusts it."""
        file.write_text(self.public())
        return {
            "GOQUEUE_SECURITY_OAUTH_KEYS": str(file),
            "GOQUEUE_SECURITY_OAUTH_ISSUER": ISSUER,
            "GOQUEUE_SECURITY_OAUTH_AUDIENCE": AUDIENCE,
        }

    def token(self, subject: object = "tess", lives_s: float = 600, **claims: Any) -> str:
        return jwt.encode({"alg": "RS256", "kid": self.key.kid}, self.claims(subject, lives_s, **claims), self.key)

    @staticmethod
    def claims(subject: object = "tess", lives_s: float = 600, **claims: Any) -> dict[str, Any]:
        now = time.time()
        return {"sub": subject, "iss": ISSUER, "aud": AUDIENCE, "iat": int(now), "exp": int(now + lives_s)} | claims
