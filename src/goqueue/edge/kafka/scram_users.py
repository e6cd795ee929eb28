"""Kafka's requests about users that log in by SCRAM: describe, alter."""

from __future__ import annotations

from collections import Counter
from typing import Final

from goqueue.base.errors import GoQueueError
from goqueue.base.limits import SCRAM_ITERATIONS, SCRAM_ITERATIONS_MIN, SCRAM_SALT_BYTES_MAX
from goqueue.core.cluster.records import ScramVerifier, UserRecord
from goqueue.edge.kafka.calls import KafkaCall
from goqueue.edge.kafka.errors import code_of
from goqueue.service.credentials import Credentials
from goqueue.service.front import Front
from goqueue.service.scram import SCRAM, digest_bytes, verifier_of_salted
from goqueue.wire.codes import (
    DUPLICATE_RESOURCE,
    RESOURCE_NOT_FOUND,
    UNACCEPTABLE_CREDENTIAL,
    UNSUPPORTED_SASL_MECHANISM,
)
from goqueue.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
    ScramCredentialUpsertion,
)
from goqueue.wire.messages.describe_user_scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)

_CODES: Final = {mechanism: code for code, mechanism in enumerate(SCRAM, 1)}
_MECHANISMS: Final = {code: mechanism for mechanism, code in _CODES.items()}
_TWICE: Final = "It is in the request more than once."


class _Wrong(Exception):
    """What is wrong with what is asked for one user."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class ScramUserHandler:
    def __init__(self, credentials: Front[Credentials]) -> None:
        self._credentials = credentials

    # --- describe --------------------------------------------------------------------------------------------

    def describe(
        self, call: KafkaCall, request: DescribeUserScramCredentialsRequest
    ) -> DescribeUserScramCredentialsResponse:
        try:
            known = {one.name: one for one in self._credentials.by(call.caller).users() if one.scram}
        except GoQueueError as error:
            return DescribeUserScramCredentialsResponse(
                error_code=code_of(error), error_message=error.message, results=[]
            )
        asked = Counter(one.name for one in request.users) if request.users else Counter(list(known))
        results = [_described(name, known.get(name), asked[name]) for name in asked]
        return DescribeUserScramCredentialsResponse(error_message=None, results=results)

    # --- alter -----------------------------------------------------------------------------------------------

    async def alter(
        self, call: KafkaCall, request: AlterUserScramCredentialsRequest
    ) -> AlterUserScramCredentialsResponse:
        """All of one user together, or nothing of it."""
        names = dict.fromkeys([*(one.name for one in request.deletions), *(one.name for one in request.upsertions)])
        return AlterUserScramCredentialsResponse(results=[await self._alter(call, request, name) for name in names])

    async def _alter(
        self, call: KafkaCall, request: AlterUserScramCredentialsRequest, name: str
    ) -> AlterUserScramCredentialsResult:
        try:
            deletes = [_mechanism(one.mechanism) for one in request.deletions if one.name == name]
            puts = [(_mechanism(one.mechanism), one) for one in request.upsertions if one.name == name]
            if len({*deletes, *(kind for kind, _ in puts)}) < len(deletes) + len(puts):
                raise _Wrong(DUPLICATE_RESOURCE, _TWICE)
            made = {kind: _verifier(kind, one) for kind, one in puts}
            await self._credentials.by(call.caller).alter_scram(name, made, deletes)
        except _Wrong as error:
            return AlterUserScramCredentialsResult(name, error.code, error.message)
        except GoQueueError as error:
            return AlterUserScramCredentialsResult(name, code_of(error), error.message)
        return AlterUserScramCredentialsResult(name, 0, None)


def _described(name: str, found: UserRecord | None, times: int) -> DescribeUserScramCredentialsResult:
    if times > 1:
        return DescribeUserScramCredentialsResult(name, DUPLICATE_RESOURCE, _TWICE, [])
    if found is None:
        return DescribeUserScramCredentialsResult(name, RESOURCE_NOT_FOUND, "There is no such user.", [])
    infos = [CredentialInfo(_CODES[kind], found.scram[kind].iterations) for kind in _CODES if kind in found.scram]
    return DescribeUserScramCredentialsResult(name, 0, None, infos)


def _mechanism(code: int) -> str:
    if code not in _MECHANISMS:
        raise _Wrong(UNSUPPORTED_SASL_MECHANISM, "The mechanism is neither SCRAM-SHA-256 nor SCRAM-SHA-512.")
    return _MECHANISMS[code]


def _verifier(mechanism: str, given: ScramCredentialUpsertion) -> ScramVerifier:
    """The client has hashed the password; what it was, nobody here knows."""
    salt, salted = bytes(given.salt), bytes(given.salted_password)
    if not SCRAM_ITERATIONS_MIN <= given.iterations <= SCRAM_ITERATIONS:
        raise _Wrong(UNACCEPTABLE_CREDENTIAL, f"There are {SCRAM_ITERATIONS_MIN} to {SCRAM_ITERATIONS} iterations.")
    if not 0 < len(salt) <= SCRAM_SALT_BYTES_MAX or len(salted) != digest_bytes(mechanism):
        raise _Wrong(UNACCEPTABLE_CREDENTIAL, "The salt or the salted password is not as long as it has to be.")
    return verifier_of_salted(mechanism, salted, salt, given.iterations)
