"""SASL PLAIN, as a client: once when a connection opens, and again in time where a session ends (KIP-368)."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any, Final

from goqueue.pipeline.link.errors import PipelineError
from goqueue.pipeline.link.identity import NodeIdentity
from goqueue.wire.codes import SASL_AUTHENTICATION_FAILED, UNSUPPORTED_SASL_MECHANISM
from goqueue.wire.messages import sasl_authenticate, sasl_handshake
from goqueue.wire.shape import ClientApi

_PLAIN: Final = "PLAIN"
_USED: Final = 0.8  # of a session's time, then it is renewed
Ask = Callable[[ClientApi, Any], Any]


class LoginFailed(PipelineError):
    """Trying again would not help, and would look like guessing."""


class NodeLogin:
    """Of one connection."""

    def __init__(self, identity: NodeIdentity, address: str) -> None:
        self._identity = identity
        self._address = address
        self._renew_s = math.inf  # by the monotonic clock

    @property
    def is_due(self) -> bool:
        return time.monotonic() >= self._renew_s

    def show(self, ask: Ask) -> None:
        """Nothing without a key."""
        login = self._identity.login()
        if login is None:
            return
        self._check(ask(sasl_handshake.API, sasl_handshake.SaslHandshakeRequest(_PLAIN)).error_code)
        data = "\0".join(("", *login)).encode()
        answer = ask(sasl_authenticate.API, sasl_authenticate.SaslAuthenticateRequest(data))
        self._check(answer.error_code)
        lifetime_s = answer.session_lifetime_ms / 1000
        self._renew_s = time.monotonic() + lifetime_s * _USED if lifetime_s else math.inf

    def renew(self, ask: Ask) -> None:
        """The same in the middle of a session."""
        self._renew_s = math.inf  # what follows is asked by the same connection
        self.show(ask)

    def _check(self, code: int) -> None:
        if code == UNSUPPORTED_SASL_MECHANISM:
            raise LoginFailed(
                f"The node at {self._address} takes no passwords and keys (SASL PLAIN): see its security.mechanisms."
            )
        if code == SASL_AUTHENTICATION_FAILED:
            raise LoginFailed(f"The node at {self._address} refuses the key; check the file that keyFile names.")
        if code:
            raise LoginFailed(f"The node at {self._address} refuses the log-in (Kafka's error {code}).")
