"""Services as doors see them for somebody of a tenant: verbs take and give the tenant's own names.

For each service a class is made once, as in `service/front.py`, whose verbs stand before those that ask access control.
What concerns the whole node is shown in part: traces and metrics.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, get_type_hints

from goqueue.base.errors import GoQueueError
from goqueue.service.asking import Attribute, Rule, Viewed
from goqueue.service.tenant_names import NAME_ANSWERS, REQUIRED, TenantNames, changed_by
from goqueue.service.visible_schemas import VisibleSchemas

# Doors that translate what comes in and goes out themselves.
TRANSLATES_ITSELF: Final = frozenset({"kafka"})


class ForTenant:
    """Stands for a service, or a part of one, while somebody of a tenant uses it."""

    __slots__ = ("inner", "inward", "outward")

    def __init__(self, inner: object, tenant: str) -> None:
        self.inner = inner
        self.inward = TenantNames(tenant, is_inward=True)
        self.outward = TenantNames(tenant, is_inward=False)


_CLASSES: Final[dict[type, type[ForTenant]]] = {}


def tenant_class(service: type, rules: Mapping[str, Rule]) -> type[ForTenant]:
    """With a method for each verb."""
    if (found := _CLASSES.get(service)) is not None:
        return found
    members = {name: _member(service, name, rule) for name, rule in rules.items()}
    _CLASSES[service] = found = type(f"{service.__name__}ForTenant", (ForTenant,), {"__slots__": (), **members})
    return found


def tenant_schemas(inner: VisibleSchemas, tenant: str) -> ForTenant:
    """The table of schemas."""
    if VisibleSchemas not in _CLASSES:
        named = [name for name, one in vars(VisibleSchemas).items() if _is_verb(name, one)]
        verbs: dict[str, object] = {name: _verb(VisibleSchemas, name) for name in named}
        verbs["last_id"] = property(lambda table: table.inner.last_id)
        _CLASSES[VisibleSchemas] = type("SchemasForTenant", (ForTenant,), {"__slots__": (), **verbs})
    return _CLASSES[VisibleSchemas](inner, tenant)


def _is_verb(name: str, member: object) -> bool:
    return inspect.isfunction(member) and not name.startswith("_")


def _member(service: type, name: str, rule: Rule) -> object:
    if isinstance(rule, Viewed):
        return property(lambda one: tenant_schemas(getattr(one.inner, name), one.inward.tenant))
    if isinstance(rule, Attribute) or not inspect.isfunction(inspect.getattr_static(service, name, None)):
        return property(lambda one: getattr(one.inner, name))
    return _verb(service, name)


def _verb(service: type, name: str) -> Callable[..., Any]:
    changes, answer = verb_changes(service, name)
    places = list(changes.values())

    def verb(one: ForTenant, *args: Any, **named: Any) -> Any:
        inward, outward = one.inward, one.outward
        given = [_changed(inward, change, arg) for change, arg in zip(places, args, strict=False)]
        known = {key: _changed(inward, changes[key], arg) for key, arg in named.items()}
        try:
            found = getattr(one.inner, name)(*given, **known)
        except GoQueueError as error:
            raise outward.error(error) from error
        if isinstance(found, Awaitable):
            return _later(found, answer, outward)
        return _changed(outward, answer, found)

    return verb


def verb_changes(service: type, name: str) -> tuple[dict[str, str], str]:
    """What is done to each argument, in order, and to the answer."""
    function = getattr(service, name)
    hints = get_type_hints(function)
    parameters = list(inspect.signature(function).parameters)[1:]
    changes = {one: changed_by(service.__name__, one, hints[one]) for one in parameters}
    return changes, "names" if name in NAME_ANSWERS else changed_by(service.__name__, "", hints["return"])


def _changed(names: TenantNames, change: str, value: Any) -> Any:
    return getattr(names, change)(value) if change and (value or change == REQUIRED) else value


async def _later(found: Awaitable[Any], change: str, outward: TenantNames) -> Any:
    try:
        return _changed(outward, change, await found)
    except GoQueueError as error:
        raise outward.error(error) from error
