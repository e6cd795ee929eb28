"""A task's function: its arguments checked before a call is sent, and made what its annotations say before it runs."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, Final

import msgspec

from goqueue.base.decoders import converted, learned
from goqueue.worker.errors import InvalidCall

# What JSON brings as it is.
_PLAIN: Final = frozenset({Any, object, inspect.Parameter.empty, str, int, float, bool, type(None), list, dict})


class TaskFunction:
    """A function with its signature."""

    def __init__(self, function: Callable[..., Any], name: str) -> None:
        self.call = function
        self.name = name
        self.is_async = inspect.iscoroutinefunction(function)
        self._signature = inspect.signature(function)

    def check(self, args: Sequence[object], kwargs: Mapping[str, object]) -> None:
        """`InvalidCall` for what the function would not take."""
        try:
            self._signature.bind(*args, **kwargs)
        except TypeError as error:
            raise InvalidCall(f"{self.name}: {error}.") from None

    def bound(self, args: Sequence[object], kwargs: Mapping[str, object]) -> dict[str, object]:
        """All arguments by name, defaults too."""
        found = self._signature.bind(*args, **kwargs)
        found.apply_defaults()
        return dict(found.arguments)

    def convert(self, args: list[Any], kwargs: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        """The arguments as their annotations say: dataclasses, dates, enums, msgspec's structs."""
        if not self._kinds:
            return args, kwargs
        try:
            placed = [self._one(name, value) for name, value in zip(self._places, args, strict=False)]
            named = {name: self._one(name, value) for name, value in kwargs.items()}
        except msgspec.ValidationError as error:
            raise InvalidCall(f"{self.name}: {error}.") from None
        return [*placed, *args[len(placed) :]], named

    def result(self, value: Any) -> Any:
        """The value as the function's annotation says."""
        kind = self._hints.get("return")
        return value if kind is None or kind in _PLAIN or not _is_known(kind) else converted(value, kind)

    def _one(self, name: str, value: Any) -> Any:
        kind = self._kinds.get(name)
        return value if kind is None else converted(value, kind)

    @cached_property
    def _hints(self) -> dict[str, Any]:
        """Annotations that cannot be found, like those of types that only checkers import, ask for nothing."""
        try:
            return typing.get_type_hints(self.call, include_extras=True)
        except Exception:
            return {}

    @cached_property
    def _places(self) -> list[str]:
        by_place = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        return [name for name, one in self._signature.parameters.items() if one.kind in by_place]

    @cached_property
    def _kinds(self) -> dict[str, Any]:
        """The parameters that JSON alone does not bring."""
        variadic = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
        names = [name for name, one in self._signature.parameters.items() if one.kind not in variadic]
        found = {name: self._hints[name] for name in names if name in self._hints}
        return {name: kind for name, kind in found.items() if not _is_plain(kind) and _is_known(kind)}


def _is_plain(kind: Any) -> bool:
    try:
        return kind in _PLAIN
    except TypeError:
        return False


def _is_known(kind: Any) -> bool:
    """Whether msgspec can make it. A type that it would take for any value asks for nothing."""
    try:
        learned(kind)
    except Exception:
        return False
    return not _is_custom(kind)


def _is_custom(kind: Any) -> bool:
    return isinstance(msgspec.inspect.type_info(kind), msgspec.inspect.CustomType)
