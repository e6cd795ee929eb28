"""Users and API keys: one table for every door, in the metadata, so that every node has it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec
from msgspec.structs import replace

from goqueue.base.clock import SteadyClock
from goqueue.base.entropy import Entropy
from goqueue.base.errors import (
    Invalid,
    InvalidField,
    MetadataConflict,
    UnknownKey,
    UnknownTenant,
    UnknownUser,
    UserExists,
)
from goqueue.base.ids import Millis
from goqueue.base.limits import KEYS_MAX, KEYS_OF_USER_MAX, SECRET_BYTES, USERS_MAX
from goqueue.base.metadata import ABSENT, Commit
from goqueue.base.names import check_name
from goqueue.base.tenants import SEPARATOR
from goqueue.core.cluster.records import (
    KEY_USES,
    KEYS,
    SECURITY_SEED,
    TENANTS,
    USERS,
    KeyRecord,
    ScramVerifier,
    SecuritySeed,
    UserRecord,
    encode,
)
from goqueue.drive.image_follower import ImageFollower
from goqueue.drive.offload import Offload
from goqueue.service.api_keys import PREFIX, ApiKeys, digest_of, new_id, new_secret
from goqueue.service.scram import SALT_BYTES, SCRAM, check_password, verifier

_NOTE_CHARS_MAX: Final = 200


class NewKey(msgspec.Struct, frozen=True):
    """A key and its secret, which is never told again."""

    key: KeyRecord
    secret: str


class Credentials:
    """The verbs."""

    def __init__(
        self, metadata: ImageFollower, clock: SteadyClock, entropy: Entropy, offload: Offload, keys: ApiKeys
    ) -> None:
        self._metadata = metadata
        self._image = metadata.image
        self._clock = clock
        self._entropy = entropy
        self._offload = offload
        self._keys = keys

    # --- users ---------------------------------------------------------------------------------------------

    def users(self) -> list[UserRecord]:
        return self._image.users()

    def user(self, name: str) -> UserRecord:
        found = self._image.user(name)
        if found is None:
            raise UnknownUser(f"There is no user {name!r}.", field="name")
        return found

    async def add_user(self, name: str, password: str, tenant: str = "") -> UserRecord:
        """`UserExists` if there is one. Who is of a `tenant` stays so."""
        if self._image.user(name) is not None:
            raise UserExists(f"There is a user {name!r} already.", field="name")
        self._check_new_user(name)
        key, place = USERS + name, TENANTS + tenant
        if tenant and self._image.tenant(tenant) is None:
            raise UnknownTenant(f"There is no tenant {tenant[:80]!r}.", field="tenant")
        made = UserRecord(name, self._clock.now_ms(), await self._verifiers(password), tenant=tenant)
        as_it_is = {place: self._image.created(place)} if tenant else {}
        try:
            await self._metadata.commit(Commit({key: encode(made)}, modified={key: ABSENT}, created=as_it_is))
        except MetadataConflict:
            raise UserExists(f"There is a user {name!r} already.", field="name") from None
        return made

    async def set_password(self, name: str, password: str) -> UserRecord:
        return await self._change(self.user(name), scram=await self._verifiers(password))

    async def set_disabled(self, name: str, disabled: bool) -> UserRecord:
        return await self._change(self.user(name), disabled=disabled)

    async def delete_user(self, name: str) -> None:
        """With all its keys."""
        self.user(name)
        keys = [one.id for one in self._image.api_keys() if one.owner == name]
        gone = [USERS + name, *(kind + one for one in keys for kind in (KEYS, KEY_USES))]
        await self._metadata.commit(Commit(deletes=gone, modified={USERS + name: self._image.modified(USERS + name)}))

    async def alter_scram(self, name: str, puts: Mapping[str, ScramVerifier], deletes: Iterable[str]) -> None:
        """As Kafka does it: a verifier for each mechanism. Who has none left is gone. `UnknownUser` if there is nothing
        to delete."""
        gone = set(deletes)
        found = self.user(name) if gone else self._image.user(name)
        if found is None:
            self._check_new_user(name)
            found = UserRecord(name, self._clock.now_ms())
        if not gone <= set(found.scram):
            raise UnknownUser(f"{name!r} has no such password.", field="name")
        kept = {kind: one for kind, one in found.scram.items() if kind not in gone}
        if not kept and not puts:
            await self.delete_user(name)
        else:
            await self._change(found, scram={**kept, **puts})

    def _check_new_user(self, name: str) -> None:
        _check_user(name)
        if len(self._image.users()) >= USERS_MAX:
            raise Invalid(f"There are {USERS_MAX} users already; delete some.")

    async def _verifiers(self, password: str) -> dict[str, ScramVerifier]:
        check_password(password)
        salts = {kind: self._entropy.token(SALT_BYTES) for kind in SCRAM}
        return await self._offload(lambda: {kind: verifier(kind, password, salt) for kind, salt in salts.items()})

    async def _change(self, user: UserRecord, **changes: object) -> UserRecord:
        changed, key = replace(user, **changes), USERS + user.name
        await self._metadata.commit(Commit({key: encode(changed)}, modified={key: self._image.modified(key)}))
        return changed

    # --- keys ----------------------------------------------------------------------------------------------

    def keys(self, owner: str | None = None) -> list[KeyRecord]:
        return [one for one in self._image.api_keys() if owner is None or one.owner == owner]

    def key(self, key_id: str) -> KeyRecord:
        found = self._image.key(key_id)
        if found is None:
            raise UnknownKey(f"There is no API key {key_id[:80]!r}.", field="id")
        return found

    def last_used_ms(self, key_id: str) -> Millis | None:
        """None if it was not used yet, as far as it is known."""
        return self._image.key_used_ms(key_id)

    async def create_key(self, owner: str, lives_ms: Millis | None, signs: bool, note: str = "") -> NewKey:
        """`lives_ms` from now on; without it for ever. A key that `signs` is for AWS Signature v4 too."""
        user, now = self.user(owner), self._clock.now_ms()
        self._check_new_key(owner, note)
        expires_ms = None if lives_ms is None else now + lives_ms
        made = KeyRecord(
            new_id(self._entropy), owner, user.created_ms, now, signs=signs, expires_ms=expires_ms, note=note
        )
        return await self._store(made, {})

    async def rotate_key(self, key_id: str, overlap_ms: Millis) -> NewKey:
        """A new key in the place of another, which counts for a while yet, so that its users can change over."""
        old, now = self.key(key_id), self._clock.now_ms()
        self._check_new_key(old.owner, old.note)
        lives_ms = None if old.expires_ms is None else old.expires_ms - old.created_ms
        ends_ms = now + overlap_ms if old.expires_ms is None else min(old.expires_ms, now + overlap_ms)
        expires_ms = None if lives_ms is None else now + lives_ms
        made = replace(old, id=new_id(self._entropy), created_ms=now, expires_ms=expires_ms)
        return await self._store(made, {KEYS + old.id: encode(replace(old, expires_ms=ends_ms))})

    async def revoke_key(self, key_id: str) -> None:
        """From now on; connections that came in by it are cut."""
        key = KEYS + self.key(key_id).id
        await self._metadata.commit(Commit(deletes=[key, KEY_USES + key_id], modified={key: self._image.modified(key)}))

    async def _store(self, made: KeyRecord, others: Mapping[str, str]) -> NewKey:
        """As long as the owner is the one it was."""
        secret = await self._secret(made)
        record = made if made.signs else replace(made, sha256=digest_of(secret))
        expected = {key: self._image.modified(key) for key in others} | {KEYS + made.id: ABSENT}
        owner = USERS + made.owner
        puts = {KEYS + made.id: encode(record), **others}
        await self._metadata.commit(Commit(puts, modified=expected, created={owner: self._image.created(owner)}))
        return NewKey(record, secret)

    async def _secret(self, made: KeyRecord) -> str:
        if not made.signs:
            return new_secret(self._entropy)
        await self.make_seed()
        return self._keys.secret_of(made)

    def _check_new_key(self, owner: str, note: str) -> None:
        if len(note) > _NOTE_CHARS_MAX:
            raise InvalidField(f"A note has at most {_NOTE_CHARS_MAX} characters.", field="note")
        if len(self.keys(owner)) >= KEYS_OF_USER_MAX or len(self._image.api_keys()) >= KEYS_MAX:
            raise Invalid(f"{owner} has {KEYS_OF_USER_MAX} keys, or there are {KEYS_MAX}; revoke some.")

    async def make_seed(self) -> None:
        """What salts of users that do not exist are made of, the same at every node."""
        if not self._image.security_seed:
            made = encode(SecuritySeed(self._entropy.token(SECRET_BYTES).hex()))
            try:
                await self._metadata.commit(Commit({SECURITY_SEED: made}, modified={SECURITY_SEED: ABSENT}))
            except MetadataConflict:
                await self._metadata.reach((await self._metadata.store.read()).revision)  # another node was first


def _check_user(name: str) -> None:
    check_name(name, "user")
    if SEPARATOR in name:
        raise InvalidField(f"A user's name has no '{SEPARATOR}'.", field="name")
    if name.startswith(PREFIX) or name == "anonymous":
        raise InvalidField(f"A user cannot be called {name!r}; that is the name of a key or of nobody.", field="name")
