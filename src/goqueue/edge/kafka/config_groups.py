"""Settings of groups of the server-side protocol and of share groups."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from goqueue.base.commands import Caller
from goqueue.base.errors import InvalidField
from goqueue.core.groups.config import GROUP_KEYS
from goqueue.core.groups.share_config import WORDS
from goqueue.edge.kafka.calls import KafkaCall
from goqueue.edge.kafka.config_entries import DEFAULT_SOURCE, GROUP_SOURCE, INT, STRING, Changes, ConfigEntry, Synonym
from goqueue.service.front import Front, answer_of
from goqueue.service.groups import Groups

_UNNAMED: Final = "Group name must not be empty"


class GroupConfigs:
    def __init__(self, groups: Front[Groups], anywhere: Front[Groups] | None = None) -> None:
        """`anywhere` asks the node that keeps a group: clients ask any node for its settings."""
        self._groups = groups
        self._anywhere = anywhere or groups
        self.is_spread = anywhere is not None

    def names(self, caller: Caller) -> Iterable[str]:
        return self._groups.by(caller).configured()

    async def names_anywhere(self, caller: Caller) -> Iterable[str]:
        """The same of all nodes."""
        return await answer_of(self._anywhere.by(caller).configured())

    def entries(self, name: str, call: KafkaCall) -> list[ConfigEntry]:
        """A group that is not there has settings too: those that it will begin with."""
        if not name:
            raise InvalidField(_UNNAMED, field="resource_name")
        return self._entries(self._groups.by(call.caller).config(name), call)

    async def entries_anywhere(self, name: str, call: KafkaCall) -> list[ConfigEntry]:
        """The same, whichever node keeps the group."""
        if not name:
            raise InvalidField(_UNNAMED, field="resource_name")
        return self._entries(await answer_of(self._anywhere.by(call.caller).config(name)), call)

    def _entries(self, chosen: Mapping[str, str], call: KafkaCall) -> list[ConfigEntry]:
        defaults = self._groups.by(call.caller).config_defaults()
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
        groups = self._anywhere.by(caller)
        whole: Changes = dict.fromkeys(await answer_of(groups.config(name))) if is_whole else {}
        if only_check:
            check: Callable[..., object] = groups.check_config
            await answer_of(check(name, {**whole, **changes}))
        else:
            await groups.configure(name, {**whole, **changes})
