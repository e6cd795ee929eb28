"""Settings of topics, and those of the node to look at."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from goqueue.base.errors import GoQueueError, InvalidConfig, InvalidField
from goqueue.base.settings import Settings, setting_keys
from goqueue.base.topic_config import CONFIG_KEYS
from goqueue.edge.doors import Doors
from goqueue.edge.kafka.admin import DEFAULT_SOURCE, TOPIC_SOURCE
from goqueue.edge.kafka.calls import CALLER, Call
from goqueue.edge.kafka.errors import code_of
from goqueue.service.topics import NODE_ID, Topics
from goqueue.wire.alter_configs import AlterConfigsRequest, AlterConfigsResourceResponse, AlterConfigsResponse
from goqueue.wire.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from goqueue.wire.incremental_alter_configs import (
    AlterableConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from goqueue.wire.incremental_alter_configs import AlterConfigsResourceResponse as IncrementalResourceResponse

REST_ADDRESS: Final = "goqueue.rest.address"  # where the node's REST door is, for clients that came through this one
TOPIC: Final = 2
BROKER: Final = 4
_STATIC_SOURCE: Final = 4
_SET, _DELETE, _APPEND, _SUBTRACT = range(4)
_STRING_TYPE, _INT_TYPE, _LONG_TYPE, _DOUBLE_TYPE = 2, 3, 5, 6


class ConfigHandler:
    def __init__(self, topics: Topics, settings: Settings, doors: Doors) -> None:
        self._topics = topics
        self._settings = settings
        self._doors = doors

    # --- look ------------------------------------------------------------------------------------------------

    def describe(self, call: Call, request: DescribeConfigsRequest) -> DescribeConfigsResponse:
        results = [
            self._describe(call, one, request.include_synonyms, request.include_documentation)
            for one in request.resources
        ]
        return DescribeConfigsResponse(results=results)

    def _describe(
        self, call: Call, asked: DescribeConfigsResource, synonyms: bool, documented: bool
    ) -> DescribeConfigsResult:
        try:
            is_topic = asked.resource_type == TOPIC
            found = self._topic(asked, synonyms, documented) if is_topic else self._node(call, asked)
        except GoQueueError as error:
            return DescribeConfigsResult(
                error_code=code_of(error),
                error_message=error.message,
                resource_type=asked.resource_type,
                resource_name=asked.resource_name,
            )
        wanted = asked.configuration_keys
        return DescribeConfigsResult(
            error_message=None,
            resource_type=asked.resource_type,
            resource_name=asked.resource_name,
            configs=[one for one in found if wanted is None or one.name in wanted],
        )

    def _topic(
        self, asked: DescribeConfigsResource, synonyms: bool, documented: bool
    ) -> list[DescribeConfigsResourceResult]:
        view = self._topics.describe(asked.resource_name, CALLER)
        found: list[DescribeConfigsResourceResult] = []
        for name, value in view.config.items():
            source = TOPIC_SOURCE if name in view.overrides else DEFAULT_SOURCE
            found.append(
                DescribeConfigsResourceResult(
                    name=name,
                    value=value,
                    config_source=source,
                    synonyms=[DescribeConfigsSynonym(name=name, value=value, source=source)] if synonyms else [],
                    config_type=_type_of(value),
                    documentation=_documentation(name) if documented else None,
                )
            )
        return found

    def _node(self, call: Call, asked: DescribeConfigsResource) -> list[DescribeConfigsResourceResult]:
        if asked.resource_type != BROKER or asked.resource_name not in (str(NODE_ID), ""):
            raise InvalidField(f"There is no resource {asked.resource_name!r} of type {asked.resource_type}.")
        named = {**self._kafka_names(), REST_ADDRESS: self._doors.rest_url(call.local_address[0])}
        found = [
            DescribeConfigsResourceResult(
                name=name,
                value=value,
                read_only=True,
                config_source=_STATIC_SOURCE,
                config_type=_STRING_TYPE,
            )
            for name, value in named.items()
        ]
        for key in setting_keys():
            value = getattr(getattr(self._settings, key.section), key.name)
            source = DEFAULT_SOURCE if value == key.default else _STATIC_SOURCE
            found.append(
                DescribeConfigsResourceResult(
                    name=key.dotted,
                    value=str(value),
                    read_only=True,
                    config_source=source,
                    config_type=_type_of(str(value)),
                )
            )
        return found

    def _kafka_names(self) -> dict[str, str]:
        """Settings that Kafka's tools know by another name."""
        settings = self._settings
        listener = f"PLAINTEXT://{settings.kafka.listen}"
        return {
            "advertised.listeners": f"PLAINTEXT://{settings.kafka.advertised or settings.kafka.listen}",
            "listeners": listener,
            "node.id": str(NODE_ID),
            "log.dirs": settings.data.dir,
            "auto.create.topics.enable": str(self._topics.kafka_may_create).lower(),
            "num.partitions": str(settings.topics.partitions),
            "default.replication.factor": "1",
            "message.max.bytes": str(settings.topics.max_message_bytes),
            "log.retention.ms": str(settings.topics.retention_ms),
            "log.segment.bytes": str(settings.topics.segment_bytes),
            "group.min.session.timeout.ms": str(settings.groups.session_ms_min),
            "group.max.session.timeout.ms": str(settings.groups.session_ms_max),
        }

    # --- change ----------------------------------------------------------------------------------------------

    async def alter(self, call: Call, request: AlterConfigsRequest) -> AlterConfigsResponse:
        """The old form: what is not named goes back to its default."""
        answers: list[AlterConfigsResourceResponse] = []
        for one in request.resources:
            given = {config.name: config.value for config in one.configs}
            code, message = await self._apply(one.resource_type, one.resource_name, given, True, request.validate_only)
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
        self, call: Call, request: IncrementalAlterConfigsRequest
    ) -> IncrementalAlterConfigsResponse:
        answers: list[IncrementalResourceResponse] = []
        for one in request.resources:
            try:
                given = self._changes(one.resource_name, one.configs)
                code, message = await self._apply(
                    one.resource_type, one.resource_name, given, False, request.validate_only
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

    def _changes(self, topic: str, configs: Iterable[AlterableConfig]) -> dict[str, str | None]:
        """What each operation comes to; lists (`cleanup.policy`) can be added to and taken from."""
        changes: dict[str, str | None] = {}
        for one in configs:
            if one.config_operation == _DELETE:
                changes[one.name] = None
            elif one.config_operation == _SET:
                changes[one.name] = one.value
            elif one.name == "cleanup.policy" and one.config_operation in (_APPEND, _SUBTRACT):
                now = self._topics.describe(topic, CALLER).config[one.name].split(",")
                words = (one.value or "").split(",")
                kept = now + words if one.config_operation == _APPEND else [word for word in now if word not in words]
                changes[one.name] = ",".join(kept)
            else:
                raise InvalidConfig(f"{one.name} is not a list: it can be set or deleted only.", field=one.name)
        return changes

    async def _apply(
        self, kind: int, name: str, given: Mapping[str, str | None], is_whole: bool, only_check: bool
    ) -> tuple[int, str | None]:
        try:
            if kind != TOPIC:
                raise InvalidField(
                    "Only topics can be changed while the node runs; see the settings file for the rest."
                )
            self._topics.require_users(name)
            view = self._topics.describe(name, CALLER)
            changes: dict[str, object | None] = dict.fromkeys(view.overrides) if is_whole else {}
            changes.update(given)
            if only_check:
                self._topics.check_config(given)
            else:
                await self._topics.alter(name, changes, None, CALLER)
        except GoQueueError as error:
            return code_of(error), error.message
        return 0, None


def _type_of(value: str) -> int:
    if value.lstrip("-").isdecimal():
        return _LONG_TYPE
    return _DOUBLE_TYPE if value.replace(".", "", 1).isdecimal() else _STRING_TYPE


def _documentation(name: str) -> str:
    key = CONFIG_KEYS.get(name)
    return "Taken for the sake of Kafka's tools; without effect here." if key is None else key.doc
