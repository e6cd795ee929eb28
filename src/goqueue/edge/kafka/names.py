"""Topics by id and by name: newer requests name topics by their UUID."""

from __future__ import annotations

import uuid

from goqueue.base.commands import Caller
from goqueue.base.errors import UnknownTopicId
from goqueue.base.tenants import is_within
from goqueue.service.topics import Topics

NO_ID = bytes(16)


class TopicNames:
    def __init__(self, topics: Topics) -> None:
        self._topics = topics

    def by_id(self, topic_id: bytes, caller: Caller) -> str | None:
        """The id of another tenant's topic is an unknown one."""
        name = self._topics.name_of(str(uuid.UUID(bytes=bytes(topic_id))))
        return None if name and caller.tenant and not is_within(caller.tenant, name) else name

    def id_of(self, name: str) -> bytes:
        """The topic's id as bytes; zeros if there is no such topic."""
        found = self._topics.find(name)
        return NO_ID if found is None else uuid.UUID(found.record.id).bytes

    def unknown_id(self) -> UnknownTopicId:
        return UnknownTopicId("No topic has that id; it may have been deleted. Ask for the metadata again.")
