"""kafka-python's message classes by name. Importing it warns about its own use of the standard library."""

from __future__ import annotations

import pkgutil
import warnings
from importlib import import_module
from typing import Any

_SKIPPED = (".old", ".schemas", "generate_stubs")


def _classes() -> dict[str, Any]:
    found: dict[str, Any] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        package = import_module("kafka.protocol")
        for module in pkgutil.walk_packages(package.__path__, "kafka.protocol."):
            if not any(word in module.name for word in _SKIPPED):
                found |= vars(import_module(module.name))
    return found


MESSAGES = _classes()
