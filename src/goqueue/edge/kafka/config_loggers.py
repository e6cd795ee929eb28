"""Levels of the node's loggers, to look at and to change while it runs. They are as before after a restart."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Final

from goqueue.base.access import AclOperation
from goqueue.base.commands import Caller
from goqueue.base.errors import InvalidConfig, InvalidField
from goqueue.edge.kafka.calls import KafkaCall
from goqueue.edge.kafka.config_broker import check_node
from goqueue.edge.kafka.config_entries import LOGGER_SOURCE, STRING, Changes, ConfigEntry
from goqueue.edge.kafka.operations import Rights
from goqueue.service.front import Front
from goqueue.service.node_config import NodeConfig

_ROOT: Final = "root"
_OURS: Final = "goqueue"
_LEVELS: Final = {
    "TRACE": logging.DEBUG,
    "DEBUG": logging.DEBUG,
    "INFO": logging.INFO,
    "WARN": logging.WARNING,
    "ERROR": logging.ERROR,
    "FATAL": logging.CRITICAL,
}
_WORDS: Final = {number: word for word, number in _LEVELS.items() if word != "TRACE"}


class LoggerConfigs:
    def __init__(self, node: Front[NodeConfig], node_id: int, rights: Rights) -> None:
        self._rights = rights
        self._node = node
        self._node_id = node_id

    def names(self, caller: Caller) -> Iterable[str]:
        return [str(self._node_id)] if self._rights.allows_cluster(caller, AclOperation.DESCRIBE_CONFIGS) else []

    def entries(self, name: str, call: KafkaCall) -> list[ConfigEntry]:
        self._rights.check_cluster(call.caller, AclOperation.DESCRIBE_CONFIGS)
        check_node(name, self._node_id)
        doc = "One of DEBUG, INFO, WARN, ERROR, FATAL; TRACE is the same as DEBUG."
        return [
            ConfigEntry(name=one, value=_level(one), source=LOGGER_SOURCE, type=STRING, doc=doc)
            for one in sorted(_loggers())
        ]

    async def alter(self, caller: Caller, name: str, changes: Changes, *, is_whole: bool, only_check: bool) -> None:
        self._rights.check_cluster(caller, AclOperation.ALTER_CONFIGS)
        if is_whole:
            raise InvalidField("Loggers are changed by IncrementalAlterConfigs only.", field="resource_type")
        check_node(name, self._node_id)
        for logger, level in changes.items():
            _check(logger, level)
        if not only_check:
            self._node.by(caller).set_log_levels(
                {
                    _name(logger): logging.NOTSET if level is None else _LEVELS[level]
                    for logger, level in changes.items()
                }
            )


def _loggers() -> set[str]:
    """The root, and every one of ours that a module made."""
    made = [
        name
        for name, one in logging.Logger.manager.loggerDict.items()
        if isinstance(one, logging.Logger) and name.split(".")[0] == _OURS
    ]
    return {_ROOT, _OURS, *made}


def _level(logger: str) -> str:
    number = logging.getLogger(_name(logger)).getEffectiveLevel()
    return _WORDS.get(number) or min(_WORDS.items(), key=lambda one: abs(one[0] - number))[1]


def _name(logger: str) -> str | None:
    return None if logger == _ROOT else logger


def _check(logger: str, level: str | None) -> None:
    if logger not in _loggers():
        raise InvalidConfig(f"Logger {logger[:100]} does not exist!", field=logger[:100])
    if level is None and logger == _ROOT:
        raise InvalidField("Removing the log level of the root logger is not allowed", field=logger)
    if level is not None and level not in _LEVELS:
        known = ", ".join(sorted(_LEVELS))
        raise InvalidConfig(
            f"Cannot set the log level of {logger} to {level[:40]} as it is not a supported log level. "
            f"Valid log levels are {known}",
            field=logger,
        )
