"""Who is let in at a door over HTTP: from known hosts and pages, within its limits, and known by name if it asks."""

from __future__ import annotations

from typing import Generic, NamedTuple, TypeVar

from goqueue.edge.http.connections import Connections
from goqueue.edge.http.gate import Gate

L = TypeVar("L")


class DoorGuard(NamedTuple, Generic[L]):
    """One door's. Without a `login` everybody is let in."""

    gate: Gate
    connections: Connections
    login: L | None = None
