"""SASL, as a client: once when a connection opens, and again in time where a session ends (KIP-368)."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any, Final

from goqueue.pipeline.link.errors import PipelineError
from goqueue.pipeline.link.identity import BEARER, SCRAM, NodeIdentity
from goqueue.wire.codes import SASL_AUTHENTICATION_FAILED, UNSUPPORTED_SASL_MECHANISM
from goqueue.wire.messages import sasl_authenticate, sasl_handshake
from goqueue.wire.shape import ClientApi

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
        mechanism = self._identity.mechanism
        if not self._identity.key():
            return
        self._check(ask(sasl_handshake.API, sasl_handshake.SaslHandshakeRequest(mechanism)).error_code)
        answer = self._scram(ask, mechanism) if mechanism in SCRAM else self._tell(ask, self._at_once(mechanism))
        lifetime_s = answer.session_lifetime_ms / 1000
        self._renew_s = time.monotonic() + lifetime_s * _USED if lifetime_s else math.inf

    def _tell(self, ask: Ask, data: bytes) -> sasl_authenticate.SaslAuthenticateResponse:
        request = sasl_authenticate.SaslAuthenticateRequest(data)
        answer: sasl_authenticate.SaslAuthenticateResponse = ask(sasl_authenticate.API, request)
        self._check(answer.error_code)
        return answer

    def _at_once(self, mechanism: str) -> bytes:
        """What is shown in one message."""
        if mechanism == BEARER:
            return f"n,,\x01auth=Bearer {self._identity.key()}\x01\x01".encode()
        return "\0".join(("", *self._name_and_password())).encode()

    def _scram(self, ask: Ask, mechanism: str) -> sasl_authenticate.SaslAuthenticateResponse:
        """The password is not shown, and the node has to prove that it knows it as well."""
        from scramp import ScramClient, ScramException  # those who do not use it need not load it

        client = ScramClient([mechanism], *self._name_and_password())
        try:
            first = self._tell(ask, client.get_client_first().encode())
            client.set_server_first(bytes(first.auth_bytes).decode())
            last = self._tell(ask, client.get_client_final().encode())
            client.set_server_final(bytes(last.auth_bytes).decode())
        except (ScramException, UnicodeDecodeError):
            raise LoginFailed(f"What answers at {self._address} does not know the password: it is another.") from None
        return last

    def _name_and_password(self) -> tuple[str, str]:
        found = self._identity.login()
        assert found is not None, "there is a key"
        return found

    def renew(self, ask: Ask) -> None:
        """The same in the middle of a session."""
        self._renew_s = math.inf  # what follows is asked by the same connection
        self.show(ask)

    def _check(self, code: int) -> None:
        if code == UNSUPPORTED_SASL_MECHANISM:
            raise LoginFailed(
                f"The node at {self._address} takes nothing by SASL {self._identity.mechanism}: see its "
                "security.mechanisms."
            )
        if code == SASL_AUTHENTICATION_FAILED:
            raise LoginFailed(f"The node at {self._address} refuses the key; check the file that keyFile names.")
        if code:
            raise LoginFailed(f"The node at {self._address} refuses the log-in (Kafka's error {code}).")
