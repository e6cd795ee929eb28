"""API keys: made, checked, and when they were last used."""

from __future__ import annotations

import contextlib
import hashlib
import hmac
from base64 import b32encode, urlsafe_b64encode
from typing import Final

from goqueue.base.entropy import Entropy
from goqueue.base.errors import CredentialsRefused, MetadataConflict, Unavailable
from goqueue.base.ids import Millis
from goqueue.base.limits import SECRET_BYTES
from goqueue.base.metadata import Commit
from goqueue.core.cluster.records import KEY_USES, KEYS, KeyRecord, KeyUse, encode
from goqueue.drive.image_follower import ImageFollower
from goqueue.service.principals import Principal, Principals

PREFIX: Final = "GQK"  # of every id, so that people and scanners know one when they see it
_ID_BYTES: Final = 10
_USE_STEP_MS: Final = 10 * 60_000  # a use that is noted holds for so long
_USES_AT_ONCE: Final = 50
_REFUSED: Final = "The credentials are wrong, have run out, or are nobody's."


def refused() -> CredentialsRefused:
    """The same for everything that can be wrong with what somebody shows."""
    return CredentialsRefused(_REFUSED)


def new_id(entropy: Entropy) -> str:
    return PREFIX + b32encode(entropy.token(_ID_BYTES)).decode("ascii")


def new_secret(entropy: Entropy) -> str:
    return _text(entropy.token(SECRET_BYTES))


def signing_secret(master: bytes, key_id: str) -> str:
    """Of a key that signs: made from the master key, so it is stored nowhere."""
    return _text(hmac.digest(master, f"goqueue signing key {key_id}".encode(), "sha256"))


def digest_of(secret: str) -> str:
    """Secrets are random and long: a fast hash is enough, nobody can try them all."""
    return hashlib.sha256(secret.encode()).hexdigest()


def _text(value: bytes) -> str:
    return urlsafe_b64encode(value).decode("ascii").rstrip("=")


class ApiKeys:
    """Checks keys as clients show them: `ID.SECRET`, or the id as a name and the secret as its password."""

    def __init__(self, principals: Principals, metadata: ImageFollower, master: bytes = b"") -> None:
        """`master` makes the secrets of keys that sign; without one the cluster's own seed does."""
        self._identities = principals
        self._metadata = metadata
        self._master = master
        self._used: dict[str, Millis] = {}

    def token(self, text: str) -> Principal:
        """`CredentialsRefused` for all that is not a key."""
        key_id, _, secret = text.partition(".")
        return self.check(key_id, secret)

    def check(self, key_id: str, secret: str) -> Principal:
        """A key that does not count takes as long to check as one that does."""
        found = self._identities.key(key_id)
        if not hmac.compare_digest(digest_of(secret), self._digest(found)) or found is None:
            raise refused()
        return self.used(found)

    def _digest(self, found: KeyRecord | None) -> str:
        if found is None:
            return "0" * 64
        return digest_of(self.secret_of(found)) if found.signs else found.sha256

    def secret_of(self, key: KeyRecord) -> str:
        """Of a key that signs."""
        return signing_secret(self._master or self._metadata.image.security_seed, key.id)

    def signer(self, key_id: str) -> KeyRecord | None:
        """A key that counts and may sign."""
        found = self._identities.key(key_id)
        return found if found is not None and found.signs else None

    def used(self, key: KeyRecord) -> Principal:
        self._used[key.id] = self._identities.now_ms()
        return self._identities.of_key(key)

    async def note_uses(self) -> None:
        """Now and then: few writes, however often keys are used."""
        used, self._used = self._used, {}
        image = self._metadata.image
        late = {one: at for one, at in used.items() if at - (image.key_used_ms(one) or 0) >= _USE_STEP_MS}
        some = [one for one in late if image.key(one) is not None][:_USES_AT_ONCE]
        self._used.update({one: at for one, at in late.items() if one not in some})
        if some:
            puts = {KEY_USES + one: encode(KeyUse(late[one])) for one in some}
            await self._commit(Commit(puts, created={KEYS + one: image.created(KEYS + one) for one in some}))

    async def _commit(self, commit: Commit) -> None:
        """If a key went away, or the store, nobody is told less than before."""
        with contextlib.suppress(MetadataConflict, Unavailable):
            await self._metadata.commit(commit)
