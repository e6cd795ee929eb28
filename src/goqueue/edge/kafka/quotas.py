"""Quotas at Kafka's door: clients are told how long they are throttled, and are not served meanwhile."""

from __future__ import annotations

from typing import Any, Final

from msgspec.structs import replace

from goqueue.base.errors import GoQueueError, InvalidField
from goqueue.base.quotas import BYTES_IN, BYTES_OUT, EACH, MESSAGES, REQUESTS, Quota, QuotaEntity
from goqueue.edge.kafka.calls import KafkaCall
from goqueue.edge.kafka.errors import code_of
from goqueue.format.batch import Buffer
from goqueue.service.front import Front
from goqueue.service.quotas import ClientQuotas, Quotas
from goqueue.wire.api import Api
from goqueue.wire.frames import encode_response_frame
from goqueue.wire.messages import alter_client_quotas as altering
from goqueue.wire.messages import describe_client_quotas as describing

_PRODUCE: Final = 0
_READS: Final = frozenset({1, 78})  # Fetch, ShareFetch
_FREE: Final = frozenset({17, 18, 36})  # nobody is held back before it has shown who it is
_EXACT, _DEFAULT, _SPECIFIED = range(3)  # how a component of a filter matches
_KINDS: Final = ("user", "client-id")


class KafkaThrottle:
    """Counts one request, and its answer once that is there."""

    __slots__ = ("_api", "_call", "_quotas", "_waits")

    def __init__(self, quotas: ClientQuotas, api: Api, call: KafkaCall, frame_bytes: int) -> None:
        self._quotas = quotas
        self._api = api
        self._call = call
        self._waits: dict[str, int] = {}
        if api.key not in _FREE:
            self._charge(REQUESTS, 1)
        if api.key == _PRODUCE:
            self._charge(BYTES_IN, frame_bytes)

    def _charge(self, limit: str, amount: int) -> None:
        self._waits[limit] = self._quotas.charge(self._call.caller, self._call.client_id, limit, amount)

    def encode(self, correlation_id: int, response: Any) -> list[Buffer]:
        """The answer, with how long the client is throttled."""
        api, version = self._api, self._call.version
        encoded = encode_response_frame(api, version, correlation_id, response)
        if api.key in _READS:
            self._charge(BYTES_OUT, sum(map(len, encoded)))
        wait_ms = self.mute()
        if wait_ms and hasattr(response, "throttle_time_ms"):
            return encode_response_frame(api, version, correlation_id, replace(response, throttle_time_ms=wait_ms))
        return encoded

    def mute(self) -> int:
        """The connection is not served for as long as the client has to wait."""
        if self._api.key == _PRODUCE:
            self._waits[MESSAGES] = self._quotas.owed_ms(self._call.caller, MESSAGES)
        limit = max(self._waits, key=lambda one: self._waits[one], default="")
        wait_ms = self._waits.get(limit, 0)
        if wait_ms:
            self._call.peer.mute(wait_ms)
            self._quotas.throttled("kafka", limit, wait_ms)
        return wait_ms


class QuotaHandler:
    def __init__(self, quotas: Front[Quotas]) -> None:
        self._quotas = quotas

    def describe(
        self, call: KafkaCall, request: describing.DescribeClientQuotasRequest
    ) -> describing.DescribeClientQuotasResponse:
        try:
            wanted = {one.entity_type: one for one in request.components}
            if unknown := [kind for kind in wanted if kind not in _KINDS]:
                raise InvalidField(f"There are no quotas of {unknown[0][:40]!r} here.", field="entity_type")
            found = [one for one in self._quotas.by(call.caller).list() if _fits(one.entity, wanted, request.strict)]
        except GoQueueError as error:
            return describing.DescribeClientQuotasResponse(
                error_code=code_of(error), error_message=error.message, entries=None
            )
        return describing.DescribeClientQuotasResponse(error_message=None, entries=[_entry(one) for one in found])

    async def alter(
        self, call: KafkaCall, request: altering.AlterClientQuotasRequest
    ) -> altering.AlterClientQuotasResponse:
        return altering.AlterClientQuotasResponse(
            entries=[await self._alter(call, one, request.validate_only) for one in request.entries]
        )

    async def _alter(self, call: KafkaCall, asked: altering.EntryData, only_check: bool) -> altering.EntryResult:
        code, message = 0, None
        try:
            named = {one.entity_type: one.entity_name or EACH for one in asked.entity}
            if unknown := [kind for kind in named if kind not in _KINDS]:
                raise InvalidField(f"There are no quotas of {unknown[0][:40]!r} here.", field="entity_type")
            changes = {one.key: None if one.remove else one.value for one in asked.ops}
            entity = QuotaEntity(named.get("user"), named.get("client-id"))
            await self._quotas.by(call.caller).alter(entity, changes, only_check)
        except GoQueueError as error:
            code, message = code_of(error), error.message
        return altering.EntryResult(code, message, asked.entity)


def _parts(entity: QuotaEntity) -> dict[str, str]:
    named = zip((*_KINDS, "tenant"), (entity.user, entity.client_id, entity.tenant), strict=True)
    return {kind: name for kind, name in named if name is not None}


def _fits(entity: QuotaEntity, wanted: dict[str, describing.ComponentData], is_strict: bool) -> bool:
    parts = _parts(entity)
    if is_strict and set(parts) != set(wanted):
        return False
    return all(kind in parts and _matches(parts[kind], one) for kind, one in wanted.items())


def _matches(name: str, wanted: describing.ComponentData) -> bool:
    if wanted.match_type == _EXACT:
        return name == wanted.match
    return name == EACH if wanted.match_type == _DEFAULT else True


def _entry(quota: Quota) -> describing.EntryData:
    return describing.EntryData(
        [describing.EntityData(kind, name or None) for kind, name in _parts(quota.entity).items()],
        [describing.ValueData(name, value) for name, value in quota.limits.items()],
    )
