"""Connections and requests of people that have shown who they are: cut when that no longer holds."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from goqueue.base.commands import Caller
from goqueue.base.metadata import Change
from goqueue.base.quotas import CONNECTIONS
from goqueue.core.cluster.records import KEYS, USERS
from goqueue.service.principals import Principal, Principals
from goqueue.service.quotas import ClientQuotas

_BUSY_MS: Final = 1_000  # when to try again where a tenant has as many as it may


class SignedIn:
    """One connection or request. Ended by whoever began it."""

    __slots__ = ("_cut", "_ended", "identity", "is_cut")

    def __init__(self, identity: Principal, cut: Callable[[], None], ended: Callable[[SignedIn], None]) -> None:
        self.identity = identity
        self.is_cut = False
        self._cut = cut
        self._ended = ended

    def end(self) -> None:
        self._ended(self)

    def cut(self) -> None:
        self.end()
        self.is_cut = True
        self._cut()


class Sessions:
    """All of this node. Belongs to the loop."""

    def __init__(self, principals: Principals, quotas: ClientQuotas) -> None:
        self._identities = principals
        self._quotas = quotas
        self._all: dict[SignedIn, None] = {}
        self.tenants: Counter[str] = Counter()  # how many each has

    def check_room(self, caller: Caller) -> None:
        """`Throttled` if the caller's tenant has as many as it may."""
        if not caller.tenant or not self._quotas.is_set:
            return
        most = self._quotas.total(caller.tenant, CONNECTIONS)
        if most is None:
            return
        if self.tenants[caller.tenant] + self._quotas.elsewhere(caller.tenant, CONNECTIONS) >= most:
            raise self._quotas.refusal(caller, CONNECTIONS, _BUSY_MS)

    def begin(self, identity: Principal, cut: Callable[[], None]) -> SignedIn:
        began = SignedIn(identity, cut, self._end)
        self._all[began] = None
        if identity.tenant:
            self.tenants[identity.tenant] += 1
        return began

    def _end(self, one: SignedIn) -> None:
        if one in self._all:
            del self._all[one]
            tenant = one.identity.tenant
            if tenant:
                self.tenants[tenant] -= 1
                if not self.tenants[tenant]:
                    del self.tenants[tenant]

    @contextmanager
    def request(self, identity: Principal) -> Iterator[SignedIn]:
        """While the block runs; a cut cancels the task that runs it."""
        task = asyncio.current_task()
        assert task is not None
        began = self.begin(identity, task.cancel)  # type: ignore[arg-type]
        try:
            yield began
        finally:
            began.end()

    def metadata_changed(self, change: Change) -> None:
        """A user or a key was changed or taken away, at whichever node."""
        if any(one.key.startswith((USERS, KEYS)) for one in change.puts) or any(
            key.startswith((USERS, KEYS)) for key in change.deletes
        ):
            self.look()

    def look(self) -> None:
        """Cuts those whose time is over too."""
        for one in [one for one in self._all if not self._identities.holds(one.identity)]:
            one.cut()
