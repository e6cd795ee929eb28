"""Settings of groups of the server-side protocol and of share groups."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from goqueue.base.commands import Caller
from goqueue.base.errors import InvalidField
from goqueue.core.groups.config import GROUP_KEYS
from goqueue.core.groups.share_config import WORDS
from goqueue.edge.kafka.calls import KafkaCall
from goqueue.edge.kafka.config_entries import DEFAULT_SOURCE, GROUP_SOURCE, INT, STRING, Changes, ConfigEntry, Synonym
from goqueue.service.front import Front
from goqueue.service.groups import Groups

_UNNAMED: Final = "Group name must not be empty"


class GroupConfigs:
    def __init__(self, groups: Front[Groups]) -> None:
        self._groups = groups

    def names(self, caller: Caller) -> Iterable[str]:
        return self._groups.by(caller).configured()

    def entries(self, name: str, call: KafkaCall) -> list[ConfigEntry]:
        """A group that is not there has settings too: those that it will begin with."""
        if not name:
            raise InvalidField(_UNNAMED, field="resource_name")
        chosen, defaults = self._groups.by(call.caller).config(name), self._groups.by(call.caller).config_defaults()
        found: list[ConfigEntry] = []
        for key, doc in GROUP_KEYS.items():
            synonyms = [Synonym(key, chosen[key], GROUP_SOURCE)] if key in chosen else []
            synonyms.append(Synonym(key, defaults[key], DEFAULT_SOURCE))
            first = synonyms[0]
            found.append(
                ConfigEntry(
                    name=key,
                    value=first.value,
                    source=first.source,
                    type=STRING if key in WORDS else INT,
                    synonyms=tuple(synonyms),
                    doc=doc,
                )
            )
        return found

    async def alter(self, caller: Caller, name: str, changes: Changes, *, is_whole: bool, only_check: bool) -> None:
        if not name:
            raise InvalidField("Default group resources are not allowed.", field="resource_name")
        whole: Changes = dict.fromkeys(self._groups.by(caller).config(name)) if is_whole else {}
        if only_check:
            self._groups.by(caller).check_config(name, {**whole, **changes})
        else:
            await self._groups.by(caller).configure(name, {**whole, **changes})
