"""All ways of showing who one is, put together: passwords, API keys, signed tokens, and who is in by them."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Final

from goqueue.base.clock import SteadyClock
from goqueue.base.entropy import Entropy
from goqueue.base.errors import UserExists
from goqueue.base.limits import SECRET_BYTES
from goqueue.base.security_settings import SecuritySettings
from goqueue.base.startup_errors import SettingsInvalid
from goqueue.drive.image_follower import ImageFollower
from goqueue.drive.offload import Offload
from goqueue.drive.repeating import Repeating
from goqueue.service.api_keys import ApiKeys
from goqueue.service.credentials import Credentials
from goqueue.service.passwords import Passwords
from goqueue.service.principals import Principals
from goqueue.service.quotas import ClientQuotas
from goqueue.service.sessions import Sessions
from goqueue.service.tokens import SignedTokens

logger = logging.getLogger(__name__)

_LOOK_S: Final = 1.0
_USES_S: Final = 30.0


class Authentication:
    """Made for every node, as users can be made before they are asked for; started where they are."""

    def __init__(
        self,
        settings: SecuritySettings,
        metadata: ImageFollower,
        clock: SteadyClock,
        entropy: Entropy,
        offload: Offload,
        quotas: ClientQuotas,
    ) -> None:
        self.settings = settings
        self.principals = Principals(metadata.image, clock, settings.super_user_names)
        self.keys = ApiKeys(self.principals, metadata, _master_key(settings.key_file))
        self.credentials = Credentials(metadata, clock, entropy, offload, self.keys)
        self.passwords = Passwords(metadata.image, self.principals, self.keys, entropy)
        self.tokens = SignedTokens(settings, offload) if settings.oauth_keys else None
        self.sessions = Sessions(self.principals, quotas)
        self._offload = offload
        self._looking = Repeating(_LOOK_S, self._look)
        self._fetching = Repeating(_LOOK_S, self._fetch)  # apart: it can take long
        self._noting = Repeating(_USES_S, self.keys.note_uses)

    async def start(self) -> None:
        """When the metadata is there."""
        if self.settings.bootstrap_file:
            await self._bootstrap(Path(self.settings.bootstrap_file))
        if self.settings.is_on:
            await self.credentials.make_seed()
            if self.tokens is not None:
                await self.tokens.start()
                self._fetching.start()
            self._looking.start()
            self._noting.start()

    async def stop(self) -> None:
        await self._looking.stop()
        await self._fetching.stop()
        await self._noting.stop()
        self.passwords.close()

    async def _look(self) -> None:
        self.sessions.look()

    async def _fetch(self) -> None:
        if self.tokens is not None:
            await self.tokens.look()

    async def _bootstrap(self, file: Path) -> None:
        """Those that are there already keep the password that they have."""
        try:
            text = await self._offload(file.read_text)
        except (OSError, UnicodeDecodeError) as error:
            raise SettingsInvalid(f"security.bootstrap_file: {file} cannot be read: {error}") from None
        known = {one.name for one in self.credentials.users()}
        for line in filter(None, map(str.strip, text.splitlines())):
            name, colon, password = line.partition(":")
            if not colon:
                raise SettingsInvalid(f"security.bootstrap_file: {file} has a line that is not `user:password`.")
            if name not in known:
                await self._make(name, password)

    async def _make(self, name: str, password: str) -> None:
        try:
            await self.credentials.add_user(name, password)
        except UserExists:
            return  # another node was first
        logger.info("user made from security.bootstrap_file", extra={"user": name})


def _master_key(file: str) -> bytes:
    if not file:
        return b""
    try:
        key = Path(file).read_bytes().strip()
    except OSError as error:
        raise SettingsInvalid(f"security.key_file: {file} cannot be read: {error}") from None
    if len(key) < SECRET_BYTES:
        raise SettingsInvalid(f"security.key_file: {file} has less than {SECRET_BYTES} bytes.")
    return key
