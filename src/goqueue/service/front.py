"""A service as doors see it: a door says who calls, and every verb asks whether that caller may, before anything else.

What a verb asks is in one table (`service/admission.py`). A verb that is not there cannot be called by a door.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterable
from typing import Any, Generic, TypeVar, cast

from goqueue.base.access import Admit
from goqueue.base.commands import Caller
from goqueue.service.admission import ADMISSION, Attribute, Need, Verbs

S = TypeVar("S")
T = TypeVar("T")


class Front(Generic[S]):
    """The verbs of one service. Without access control nothing is asked and nothing is paid."""

    __slots__ = ("_admit", "_asks", "_service")

    def __init__(self, service: S, admit: Admit | None, routed: S | None = None) -> None:
        """`routed` stands for the service where other nodes are asked too; what is asked of the caller is the same."""
        self._service = service if routed is None else routed
        self._admit = admit
        self._asks = ADMISSION[type(service)]

    def by(self, caller: Caller) -> S:
        """The service, for one caller."""
        if self._admit is None:
            return self._service
        return cast(S, _Asking(self._service, self._asks, self._admit, caller))


async def answer_of(asked: T | Awaitable[T]) -> T:
    """What a verb says that answers at once here, and later where another node has to be asked."""
    return await asked if isinstance(asked, Awaitable) else asked


class _Asking:
    """Stands for the service while one caller uses it."""

    __slots__ = ("_admit", "_asks", "_caller", "_service")

    def __init__(self, service: object, asks: Verbs, admit: Admit, caller: Caller) -> None:
        self._service = service
        self._asks = asks
        self._admit = admit
        self._caller = caller

    def __getattr__(self, name: str) -> Any:
        ask = self._asks.get(name)
        if ask is None:
            raise AttributeError(f"{name} of {type(self._service).__name__} is not for doors; see service/admission.py")
        if isinstance(ask, Attribute):
            self._check(ask.needs)
            return getattr(self._service, name)

        def verb(*args: Any, **named: Any) -> Any:
            self._check(ask(*args, **named))
            return getattr(self._service, name)(*args, **named)

        return verb

    def _check(self, needs: Iterable[Need]) -> None:
        for operation, resource in needs:
            self._admit(self._caller, operation, resource)
