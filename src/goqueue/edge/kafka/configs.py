"""Settings of topics, nodes, loggers and groups: describe, alter, list. Each kind of them is in a file of its own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Iterable, Mapping
from typing import Final

from goqueue.base.errors import GoQueueError, InvalidConfig, InvalidField
from goqueue.edge.kafka.calls import KafkaCall
from goqueue.edge.kafka.config_broker import BrokerConfigs
from goqueue.edge.kafka.config_entries import LIST, Changes, ConfigEntry, Resource
from goqueue.edge.kafka.config_groups import GroupConfigs
from goqueue.edge.kafka.config_loggers import LoggerConfigs
from goqueue.edge.kafka.config_topics import TopicConfigs
from goqueue.edge.kafka.errors import code_of
from goqueue.wire.codes import UNSUPPORTED_VERSION
from goqueue.wire.messages import list_config_resources as listing
from goqueue.wire.messages.alter_configs import AlterConfigsRequest, AlterConfigsResourceResponse, AlterConfigsResponse
from goqueue.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from goqueue.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from goqueue.wire.messages.incremental_alter_configs import AlterConfigsResourceResponse as IncrementalResourceResponse

TOPIC: Final = 2
BROKER: Final = 4
BROKER_LOGGER: Final = 8
CLIENT_METRICS: Final = 16
GROUP: Final = 32
_SET, _DELETE, _APPEND, _SUBTRACT = range(4)


class ConfigHandler:
    def __init__(
        self, topics: TopicConfigs, broker: BrokerConfigs, groups: GroupConfigs, loggers: LoggerConfigs
    ) -> None:
        self._groups = groups
        self._resources: Mapping[int, Resource] = {
            TOPIC: topics,
            BROKER: broker,
            BROKER_LOGGER: loggers,
            GROUP: groups,
        }

    def _resource(self, kind: int) -> Resource:
        found = self._resources.get(kind)
        if found is None:
            raise InvalidField(f"Unknown resource type {kind}", field="resource_type")
        return found

    # --- look ------------------------------------------------------------------------------------------------

    def describe(
        self, call: KafkaCall, request: DescribeConfigsRequest
    ) -> DescribeConfigsResponse | Awaitable[DescribeConfigsResponse]:
        if self._groups.is_spread and any(one.resource_type == GROUP for one in request.resources):
            return self._describe_anywhere(call, request)
        results = [
            self._describe(call, one, request.include_synonyms, request.include_documentation)
            for one in request.resources
        ]
        return DescribeConfigsResponse(results=results)

    async def _describe_anywhere(self, call: KafkaCall, request: DescribeConfigsRequest) -> DescribeConfigsResponse:
        """Groups are asked for at the nodes that keep them."""
        told = (request.include_synonyms, request.include_documentation)
        results: list[DescribeConfigsResult] = []
        for one in request.resources:
            if one.resource_type != GROUP:
                results.append(self._describe(call, one, *told))
                continue
            try:
                results.append(_told(one, await self._groups.entries_anywhere(one.resource_name, call), *told))
            except GoQueueError as error:
                results.append(_failed(one, error))
        return DescribeConfigsResponse(results=results)

    def _describe(
        self, call: KafkaCall, asked: DescribeConfigsResource, synonyms: bool, documented: bool
    ) -> DescribeConfigsResult:
        try:
            found = self._resource(asked.resource_type).entries(asked.resource_name, call)
        except GoQueueError as error:
            return _failed(asked, error)
        return _told(asked, found, synonyms, documented)

    def list_resources(
        self, call: KafkaCall, request: listing.ListConfigResourcesRequest
    ) -> listing.ListConfigResourcesResponse | Awaitable[listing.ListConfigResourcesResponse]:
        """The first version knew only the metrics that clients send, of which there are none here."""
        kinds = [CLIENT_METRICS] if call.version == 0 else list(request.resource_types)
        known = {*self._resources, CLIENT_METRICS}
        if any(kind not in known for kind in kinds):
            return listing.ListConfigResourcesResponse(error_code=UNSUPPORTED_VERSION)
        wanted = sorted((set(kinds) if kinds else known) & self._resources.keys())
        if self._groups.is_spread and GROUP in wanted:
            return self._list_anywhere(call, wanted)
        return _listed({kind: self._resources[kind].names(call.caller) for kind in wanted})

    async def _list_anywhere(self, call: KafkaCall, kinds: Iterable[int]) -> listing.ListConfigResourcesResponse:
        """Groups of all nodes."""
        found = {kind: self._resources[kind].names(call.caller) for kind in kinds if kind != GROUP}
        try:
            return _listed({**found, GROUP: await self._groups.names_anywhere(call.caller)})
        except GoQueueError as error:
            return listing.ListConfigResourcesResponse(error_code=code_of(error))

    # --- change ----------------------------------------------------------------------------------------------

    async def alter(self, call: KafkaCall, request: AlterConfigsRequest) -> AlterConfigsResponse:
        """The old form: what is not named goes back to its default."""
        doubles = _doubles((one.resource_type, one.resource_name) for one in request.resources)
        answers: list[AlterConfigsResourceResponse] = []
        for one in request.resources:
            code, message = 0, None
            try:
                _check_once((one.resource_type, one.resource_name), doubles, [config.name for config in one.configs])
                given = {config.name: config.value for config in one.configs}
                resource = self._resource(one.resource_type)
                await resource.alter(
                    call.caller, one.resource_name, given, is_whole=True, only_check=request.validate_only
                )
            except GoQueueError as error:
                code, message = code_of(error), error.message
            answers.append(
                AlterConfigsResourceResponse(
                    error_code=code,
                    error_message=message,
                    resource_type=one.resource_type,
                    resource_name=one.resource_name,
                )
            )
        return AlterConfigsResponse(responses=answers)

    async def alter_incrementally(
        self, call: KafkaCall, request: IncrementalAlterConfigsRequest
    ) -> IncrementalAlterConfigsResponse:
        doubles = _doubles((one.resource_type, one.resource_name) for one in request.resources)
        answers: list[IncrementalResourceResponse] = []
        for one in request.resources:
            code, message = 0, None
            try:
                _check_once((one.resource_type, one.resource_name), doubles, [config.name for config in one.configs])
                resource = self._resource(one.resource_type)
                changes = _changes(resource, one.resource_name, one.configs, call)
                await resource.alter(
                    call.caller, one.resource_name, changes, is_whole=False, only_check=request.validate_only
                )
            except GoQueueError as error:
                code, message = code_of(error), error.message
            answers.append(
                IncrementalResourceResponse(
                    error_code=code,
                    error_message=message,
                    resource_type=one.resource_type,
                    resource_name=one.resource_name,
                )
            )
        return IncrementalAlterConfigsResponse(responses=answers)


def _listed(names: Mapping[int, Iterable[str]]) -> listing.ListConfigResourcesResponse:
    found = [
        listing.ConfigResource(resource_name=name, resource_type=kind) for kind in sorted(names) for name in names[kind]
    ]
    return listing.ListConfigResourcesResponse(config_resources=found)


def _doubles(named: Iterable[tuple[int, str]]) -> set[tuple[int, str]]:
    return {one for one, count in Counter(named).items() if count > 1}


def _check_once(which: tuple[int, str], doubles: set[tuple[int, str]], keys: list[str]) -> None:
    if which in doubles:
        raise InvalidField("Each resource must appear at most once.", field="resource_name")
    if len(set(keys)) < len(keys):
        raise InvalidField("Error due to duplicate config keys", field="configs")


def _changes(resource: Resource, name: str, configs: Iterable[AlterableConfig], call: KafkaCall) -> Changes:
    """What each operation comes to; lists (`cleanup.policy`) can be added to and taken from."""
    changes: dict[str, str | None] = {}
    for one in configs:
        if one.config_operation == _DELETE:
            changes[one.name] = None
        elif one.value is None:
            raise InvalidField(f"Null value not supported for : {one.name}", field=one.name)
        elif one.config_operation == _SET:
            changes[one.name] = one.value
        elif one.config_operation in (_APPEND, _SUBTRACT):
            changes[one.name] = _edited(resource, name, one, call)
        else:
            raise InvalidField(f"There is no operation {one.config_operation}.", field=one.name)
    return changes


def _edited(resource: Resource, name: str, change: AlterableConfig, call: KafkaCall) -> str:
    entry = next((one for one in resource.entries(name, call) if one.name == change.name), None)
    if entry is None or entry.type != LIST:
        word = "APPEND to" if change.config_operation == _APPEND else "SUBTRACT from"
        raise InvalidConfig(f"Can't {word} key {change.name} because its type is not LIST.", field=change.name)
    now = [word for word in (entry.value or "").split(",") if word]
    words = (change.value or "").split(",")
    if change.config_operation == _APPEND:
        return ",".join([*now, *(word for word in words if word not in now)])
    return ",".join(word for word in now if word not in words)


def _failed(asked: DescribeConfigsResource, error: GoQueueError) -> DescribeConfigsResult:
    return DescribeConfigsResult(
        error_code=code_of(error),
        error_message=error.message,
        resource_type=asked.resource_type,
        resource_name=asked.resource_name,
    )


def _told(
    asked: DescribeConfigsResource, found: list[ConfigEntry], synonyms: bool, documented: bool
) -> DescribeConfigsResult:
    wanted = asked.configuration_keys  # none is all
    return DescribeConfigsResult(
        error_message=None,
        resource_type=asked.resource_type,
        resource_name=asked.resource_name,
        configs=[one.told(synonyms, documented) for one in found if not wanted or one.name in wanted],
    )
