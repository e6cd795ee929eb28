"""The schemas that a topic's values are written with, from the registry of the node."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import lru_cache
from typing import Final, TypeVar

import msgspec

from goqueue.client import ConnectionFailed, GoQueueClientError
from goqueue.client import schemas as calls
from goqueue.client.calls import RestCall
from goqueue.client.schemas import RegisteredSchema, SchemaReference
from goqueue.pipeline.link.cluster import PATIENCE_S
from goqueue.pipeline.link.identity import node_client
from goqueue.pipeline.link.patience import Patience
from goqueue.pipeline.source.errors import Untyped

T = TypeVar("T")

_VALIDATION: Final = "schema.validation"
_MISSING: Final = 404
_REFERENCES_MAX: Final = 100  # as many as the registry takes


class Registered(msgspec.Struct, frozen=True):
    """One schema, with the texts of what it refers to by name; the deepest ones first.

    A Protobuf file's text is its description in base64, as only the registry itself can read .proto files.
    """

    id: int
    kind: str
    text: str
    named: dict[str, str] = {}


def registry(url: str) -> RegistryClient:
    """The process's one registry behind this address."""
    return _cached(os.getpid(), url)


class RegistryClient:
    """Remembers every schema it was told, for they never change. Waits for a node that is away."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._client = node_client(url)
        self._by_id: dict[int, Registered | None] = {}

    def latest(self, topic: str) -> Registered:
        """What the topic's values are written with now; `Untyped` if nothing is registered for it."""
        for subject in (f"{topic}-value", topic):
            found = self._ask(calls.schema(subject))
            if found is not None:
                return self._whole(found)
        raise Untyped(
            f"No schema is registered for the values of {topic!r}; register one as '{topic}-value', "
            "or read bytes: leave the option 'schema' away."
        )

    def by_id(self, number: int) -> Registered | None:
        """None if there is no such schema."""
        if number not in self._by_id:
            found = self._ask(calls.schema_by_id(number))
            self._by_id[number] = None if found is None else self._whole(found, number)
        return self._by_id[number]

    def framing(self, topic: str) -> str:
        """How the topic's messages say their schema: its setting `schema.validation`."""
        return self._patiently(lambda: self._client.topic(topic)).config.get(_VALIDATION, "none")

    def _whole(self, found: RegisteredSchema, number: int = 0) -> Registered:
        named: dict[str, str] = {}
        for reference in found.references:
            self._add(reference, named)
        return Registered(found.id or number, found.schema_type, found.schema, named)

    def _add(self, reference: SchemaReference, named: dict[str, str]) -> None:
        found = self._ask(calls.schema(reference.subject, reference.version))
        if found is None or len(named) >= _REFERENCES_MAX:
            raise Untyped(f"The schema refers to {reference.subject} version {reference.version}, which is not there.")
        for deeper in found.references:
            self._add(deeper, named)
        named[reference.name] = found.schema

    def _ask(self, call: RestCall[T]) -> T | None:
        asked = msgspec.structs.replace(call, query={"format": "serialized"})
        try:
            return self._patiently(lambda: self._client.perform(asked))
        except GoQueueClientError as error:
            if error.status == _MISSING:
                return None
            raise

    def _patiently(self, ask: Callable[[], T]) -> T:
        patience = Patience(self._url, PATIENCE_S)
        while True:
            try:
                return ask()
            except ConnectionFailed as error:
                patience.pause(OSError(error.detail))


@lru_cache(maxsize=16)
def _cached(process: int, url: str) -> RegistryClient:
    """By process, since a forked one must not share its parent's connections."""
    return RegistryClient(url)
