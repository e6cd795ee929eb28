"""Names users choose. Validated before any of them can become a path."""

from __future__ import annotations

import re
from typing import Final

from goqueue.base.errors import InvalidName
from goqueue.base.limits import NAME_CHARS_MAX
from goqueue.base.tenants import is_tenant, split_name

# The names that Kafka keeps for itself, and ours.
INTERNAL: Final = frozenset(
    {
        "__consumer_offsets",
        "__transaction_state",
        "__share_group_state",
        "__cluster_metadata",
        "__goqueue_schedule",
        "__goqueue_deliveries",
        "__goqueue_schemas",
    }
)
_LEGAL = re.compile(r"[a-zA-Z0-9._-]+")


def is_name(name: str) -> bool:
    """Whether a topic, a group or the like can be called this."""
    try:
        check_name(name)
    except InvalidName:
        return False
    return True


def is_internal(name: str) -> bool:
    """Whether the broker keeps the name for itself, in every tenant."""
    return split_name(name)[1] in INTERNAL


def check_name(name: str, kind: str = "topic", field: str = "name") -> str:
    """Returns the name, or raises `InvalidName` saying what is wrong with it. A tenant's name may stand before it."""
    tenant, own = split_name(name)
    if not is_tenant(tenant):
        own = name
    if not own:
        raise InvalidName(f"The {kind} name is empty; use 1 to {NAME_CHARS_MAX} characters.", field=field)
    if len(name) > NAME_CHARS_MAX:
        raise InvalidName(f"The {kind} name has {len(name)} characters; use at most {NAME_CHARS_MAX}.", field=field)
    if own in (".", ".."):
        raise InvalidName(f"A {kind} cannot be called {name!r}.", field=field)
    if not _LEGAL.fullmatch(own):
        raise InvalidName(
            f"The {kind} name {name!r} has characters outside a-z, A-Z, 0-9, '.', '_' and '-'.", field=field
        )
    return name


def unified(name: str) -> str:
    """The name as Kafka's metrics write it; topics must differ in this."""
    return name.replace(".", "_")
