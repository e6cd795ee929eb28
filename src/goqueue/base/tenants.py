"""Names inside and outside of a tenant: inside the broker, whatever a tenant has is called `TENANT~NAME`.

A tenant's own name has no `~`, so the first one ends it, and no name that somebody of a tenant chooses leaves it.
"""

from __future__ import annotations

import re
from typing import Final

from goqueue.base.errors import InvalidName
from goqueue.base.limits import TENANT_CHARS_MAX

SEPARATOR: Final = "~"
_TENANT: Final = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?")


def is_tenant(name: str) -> bool:
    """Whether a tenant can be called this."""
    return len(name) <= TENANT_CHARS_MAX and _TENANT.fullmatch(name) is not None


def check_tenant(name: str) -> str:
    """Returns the name, or raises `InvalidName`."""
    if not is_tenant(name):
        raise InvalidName(
            f"A tenant's name has 1 to {TENANT_CHARS_MAX} of a-z, 0-9 and '-', and '-' neither first nor last.",
            field="name",
        )
    return name


def full_name(tenant: str, name: str) -> str:
    return f"{tenant}{SEPARATOR}{name}" if tenant else name


def split_name(full: str) -> tuple[str, str]:
    """The tenant (or nothing) and the name in it."""
    tenant, separator, name = full.partition(SEPARATOR)
    return (tenant, name) if separator else ("", full)


def split_tenant(full: str) -> tuple[str, str]:
    """The same of what may hold a separator without being a tenant's: then it is of none."""
    tenant, name = split_name(full)
    return (tenant, name) if is_tenant(tenant) else ("", full)


def tenant_of(full: str) -> str:
    return split_name(full)[0]


def short_name(full: str) -> str:
    """As its own people call it."""
    return split_name(full)[1]


def told_name(tenant: str, full: str) -> str:
    """As it is written down beside what belongs to a tenant: its own names short, others with a `~` before them."""
    if not tenant:
        return full
    return short_name(full) if is_within(tenant, full) else SEPARATOR + full


def meant_name(tenant: str, told: str) -> str:
    """The name that was told so."""
    return told[1:] if tenant and told.startswith(SEPARATOR) else full_name(tenant, told)


def is_within(tenant: str, full: str) -> bool:
    """Whether it is one of this tenant's."""
    return full.startswith(tenant + SEPARATOR)
