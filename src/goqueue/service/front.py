"""A service as doors see it: a door says who calls, and every verb asks whether that caller may, before anything else.

What a verb asks is in one table (`service/admission.py`). A verb that is not there cannot be called by a door. For each
service a class is made once that has its verbs, so that asking costs a call and a look into a dictionary.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from typing import Any, Final, Generic, TypeVar, cast

from goqueue.base.access import CHANGES, Access, Need
from goqueue.base.commands import Caller
from goqueue.base.errors import GoQueueError
from goqueue.service.admission import ADMISSION
from goqueue.service.asking import (
    Attribute,
    Delivering,
    Hidden,
    Listed,
    LookedUp,
    Noted,
    Rule,
    ToldCaller,
    Viewed,
    anybody,
)
from goqueue.service.metrics_page import MetricsPage
from goqueue.service.tenant_front import TRANSLATES_ITSELF, tenant_class
from goqueue.service.tenant_views import TenantMetrics, TenantTraces
from goqueue.service.traces import Traces

# What of a whole node somebody of a tenant is shown in part.
_TENANT_VIEWS: Final[dict[type, Callable[..., object]]] = {Traces: TenantTraces, MetricsPage: TenantMetrics}

S = TypeVar("S")
T = TypeVar("T")


class Front(Generic[S]):
    """The verbs of one service. Without access control nothing is asked and nothing is paid."""

    __slots__ = ("_access", "_asking", "_kind", "_last", "_service")

    def __init__(self, service: S, access: Access | None, routed: S | None = None) -> None:
        """`routed` stands for the service where other nodes are asked too; what is asked of the caller is the same."""
        self._service = service if routed is None else routed
        self._access = access
        self._kind = type(service)
        self._asking = asking_class(self._kind)
        self._last: tuple[Caller | None, S] = (None, self._service)  # who asks often asks again

    def by(self, caller: Caller) -> S:
        """The service, for one caller."""
        if self._access is None or not self._access.asks(caller):
            return self._service
        known, last = self._last
        if known is not caller:
            last = cast(S, self._for(caller, self._access))
            self._last = (caller, last)
        return last

    def _for(self, caller: Caller, access: Access) -> object:
        if not caller.tenant or caller.door in TRANSLATES_ITSELF:
            return self._asking(self._service, access, caller)
        if (view := _TENANT_VIEWS.get(self._kind)) is not None:
            return view(self._service, access, caller)
        asking = self._asking(self._service, access, caller)
        return tenant_class(self._kind, ADMISSION[self._kind])(asking, caller.tenant)


async def answer_of(asked: T | Awaitable[T]) -> T:
    """What a verb says that answers at once here, and later where another node has to be asked."""
    return await asked if isinstance(asked, Awaitable) else asked


class ServiceForCaller:
    """Stands for the service while one caller uses it."""

    __slots__ = ("access", "caller", "service")

    def __init__(self, service: object, access: Access, caller: Caller) -> None:
        self.service = service
        self.access = access
        self.caller = caller

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"{name} of {type(self.service).__name__} is not for doors; see service/admission.py")


_CLASSES: Final[dict[type, type[ServiceForCaller]]] = {}


def asking_class(service: type) -> type[ServiceForCaller]:
    """With a method for each verb of the service that doors may call."""
    if (found := _CLASSES.get(service)) is not None:
        return found
    verbs = {name: _member(service.__name__, name, rule) for name, rule in ADMISSION[service].items()}
    _CLASSES[service] = found = type(
        f"ServiceForCaller{service.__name__}", (ServiceForCaller,), {"__slots__": (), **verbs}
    )
    return found


def _member(service: str, name: str, rule: Rule) -> object:
    if rule is anybody:
        return property(lambda asking: getattr(asking.service, name))
    if isinstance(rule, Attribute):
        return property(partial(_attribute, name, rule))
    if isinstance(rule, Viewed):
        return property(lambda asking: rule.view(getattr(asking.service, name), asking.access, asking.caller))
    if isinstance(rule, Listed):
        return _listed(name, rule)
    if isinstance(rule, Hidden):
        return _hidden(name, rule)
    if isinstance(rule, LookedUp):
        return _looked_up(name, rule, f"{service}.{name}")
    if isinstance(rule, Delivering):
        return _delivering(name, rule)
    if isinstance(rule, Noted):
        return _noted(name, rule.ask, f"{service}.{name}", lambda needs: True)
    if isinstance(rule, ToldCaller):
        return _told_caller(_noted(name, rule.ask, f"{service}.{name}", _changes))
    if name.startswith("check_") or service in _HOT:
        return _plain(name, rule)
    return _noted(name, rule, f"{service}.{name}", _changes)


# Services of which no verb changes more than messages and places in them: what they ask is not looked through.
_HOT: Final = frozenset({"Publish", "DeduplicatedPublish", "Fetching", "Leasing", "Sharing", "TransactionalPublish"})


def _changes(needs: Iterable[Need]) -> bool:
    return any(operation in CHANGES for operation, _ in needs)


def _check(asking: ServiceForCaller, needs: Iterable[Need]) -> None:
    admit, caller = asking.access.admit, asking.caller
    for operation, resource in needs:
        admit(caller, operation, resource)


def _attribute(name: str, rule: Attribute, asking: ServiceForCaller) -> Any:
    _check(asking, rule.needs)
    return getattr(asking.service, name)


def _plain(name: str, ask: Callable[..., Iterable[Need]]) -> Callable[..., Any]:
    def verb(asking: ServiceForCaller, *args: Any, **named: Any) -> Any:
        admit, caller = asking.access.admit, asking.caller
        for operation, resource in ask(*args, **named):
            admit(caller, operation, resource)
        return getattr(asking.service, name)(*args, **named)

    return verb


def _noted(
    name: str, ask: Callable[..., Iterable[Need]], title: str, is_noted: Callable[[Sequence[Need]], bool]
) -> Callable[..., Any]:
    """With a line in the audit log, once it is done or has failed."""

    def verb(asking: ServiceForCaller, *args: Any, **named: Any) -> Any:
        needs = list(ask(*args, **named))
        _check(asking, needs)
        if not is_noted(needs):
            return getattr(asking.service, name)(*args, **named)
        record = partial(asking.access.record, asking.caller, title, needs)
        return _recorded(record, lambda: getattr(asking.service, name)(*args, **named))

    return verb


def _told_caller(ask_and_act: Callable[..., Any]) -> Callable[..., Any]:
    """Whatever a door says, the caller is the one that asks."""

    def verb(asking: ServiceForCaller, *args: Any, **named: Any) -> Any:
        return ask_and_act(asking, *args, **{**named, "caller": asking.caller})

    return verb


def _recorded(record: Callable[[str], None], act: Callable[[], Any]) -> Any:
    try:
        found = act()
    except GoQueueError as error:
        record(error.code)
        raise
    if isinstance(found, Awaitable):
        return _recorded_later(record, found)
    record("done")
    return found


async def _recorded_later(record: Callable[[str], None], answer: Awaitable[T]) -> T:
    try:
        found = await answer
    except GoQueueError as error:
        record(error.code)
        raise
    record("done")
    return found


def _listed(name: str, rule: Listed) -> Callable[..., Any]:
    def verb(asking: ServiceForCaller, *args: Any, **named: Any) -> Any:
        def seen(found: Iterable[Any]) -> list[Any]:
            allows, caller = asking.access.allows, asking.caller
            return [one for one in found if all(allows(caller, *need) for need in rule.needs(one))]

        return _then(getattr(asking.service, name)(*args, **named), seen)

    return verb


def _hidden(name: str, rule: Hidden) -> Callable[..., Any]:
    def verb(asking: ServiceForCaller, *args: Any, **named: Any) -> Any:
        if not all(asking.access.allows(asking.caller, *need) for need in rule.ask(*args, **named)):
            return None
        return getattr(asking.service, name)(*args, **named)

    return verb


def _looked_up(name: str, rule: LookedUp, title: str) -> Callable[..., Any]:
    def verb(asking: ServiceForCaller, *args: Any, **named: Any) -> Any:
        def go_on(found: Any) -> Any:
            needs = rule.needs(found)
            _check(asking, needs)
            if name == rule.lookup:
                return found
            act: Callable[[], Any] = lambda: getattr(asking.service, name)(*args, **named)  # noqa: E731
            if not _changes(needs):
                return act()
            return _recorded(partial(asking.access.record, asking.caller, title, needs), act)

        looked = getattr(asking.service, rule.lookup)
        return _then(looked(*args, **named) if name == rule.lookup else looked(args[0]), go_on)

    return verb


def _delivering(name: str, rule: Delivering) -> Callable[..., Any]:
    def verb(asking: ServiceForCaller, *args: Any, **named: Any) -> Any:
        _check(asking, rule.ask(*args, **named))

        def checked(found: Any) -> Any:
            _check(asking, rule.needs(found))
            return found

        return _then(getattr(asking.service, name)(*args, **named), checked)

    return verb


def _then(found: Any, go_on: Callable[[Any], Any]) -> Any:
    """With an answer that is there, or that will be."""
    if not isinstance(found, Awaitable):
        return go_on(found)

    async def later() -> Any:
        return await answer_of(go_on(await found))

    return later()
