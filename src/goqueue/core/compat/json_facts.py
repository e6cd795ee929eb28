"""What is known of all values that fit a conjunction of JSON Schemas: types, finite values, bounds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

from goqueue.core.schemas.json_schema import JsonDocument
from goqueue.core.schemas.json_text import canonical_json

TYPES: Final = ("null", "boolean", "integer", "number", "string", "array", "object")
_ALL: Final = frozenset(TYPES)
_SINCE: Final = {  # the draft that brought a keyword; earlier ones ignore it
    "const": 6,
    "contains": 6,
    "propertyNames": 6,
    "if": 7,
    "dependentRequired": 2019,
    "dependentSchemas": 2019,
    "minContains": 2019,
    "maxContains": 2019,
    "unevaluatedItems": 2019,
    "unevaluatedProperties": 2019,
    "prefixItems": 2020,
}


class Plain(NamedTuple):
    """One schema object, its `$ref` and `allOf` taken apart; `done` are keywords that were dealt with."""

    schema: dict[str, Any]
    document: JsonDocument
    path: str
    done: frozenset[str] = frozenset()

    def get(self, keyword: str) -> Any:
        return self.schema.get(keyword) if self.says(keyword) else None

    def says(self, keyword: str) -> bool:
        """Whether the keyword stands here, means something in this draft, and was not dealt with."""
        if keyword not in self.schema or keyword in self.done:
            return False
        since = _SINCE.get(keyword)
        return since is None or self.document.draft_of(self.schema) >= since

    @property
    def key(self) -> tuple[int, frozenset[str]]:
        return id(self.schema), self.done


class Conjunction(NamedTuple):
    """All of `parts` hold, and none of `negated` does."""

    parts: tuple[Plain, ...]
    negated: tuple[tuple[Any, JsonDocument], ...] = ()

    @property
    def key(self) -> tuple[object, ...]:
        return frozenset(part.key for part in self.parts), frozenset(id(schema) for schema, _ in self.negated)

    def values(self, keyword: str) -> Iterator[Any]:
        """What each part says under the keyword, where it says something."""
        for part in self.parts:
            found = part.get(keyword)
            if found is not None:
                yield found

    def plus(self, *more: Plain) -> Conjunction:
        return Conjunction(self.parts + more, self.negated)


def types_of(conjunction: Conjunction) -> frozenset[str]:
    """Every type that a fitting value can have. `number` stands for numbers that are not whole."""
    types = _ALL
    for part in conjunction.parts:
        types &= own_types(part)
    values = finite(conjunction)
    return types if values is None else types & frozenset(type_of(value) for value in values)


def own_types(part: Plain) -> frozenset[str]:
    named = part.get("type")
    if named is None:
        return _ALL
    types = frozenset([named] if isinstance(named, str) else named)
    return types | {"integer"} if "number" in types else types


def type_of(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int) or (isinstance(value, float) and value.is_integer()):
        return "integer"
    if isinstance(value, float):
        return "number"
    return "string" if isinstance(value, str) else "array" if isinstance(value, list) else "object"


def finite(conjunction: Conjunction) -> list[Any] | None:
    """The only values there can be, if `enum` or `const` says so."""
    found: dict[str, Any] | None = None
    for part in conjunction.parts:
        listed = own_values(part)
        if listed is not None:
            named = {value_key(value): value for value in listed}
            found = named if found is None else {name: value for name, value in found.items() if name in named}
    return None if found is None else list(found.values())


def own_values(part: Plain) -> list[Any] | None:
    listed = part.get("enum")
    if not part.says("const"):
        return listed if isinstance(listed, list) else None
    only = part.schema["const"]
    fits = not isinstance(listed, list) or value_key(only) in map(value_key, listed)
    return [only] if fits else []


def value_key(value: Any) -> str:
    """The same for values that JSON Schema takes for equal: 1 and 1.0 are."""
    return canonical_json(_normal(value))


def _normal(value: Any) -> Any:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, list):
        return [_normal(one) for one in value]
    return {name: _normal(one) for name, one in value.items()} if isinstance(value, dict) else value


class Bound(NamedTuple):
    """A limit of a range; ordered so that the larger is the tighter for a lower one."""

    value: float
    excluded: bool


def lower(part: Plain) -> Bound | None:
    return _tightest(part, "minimum", "exclusiveMinimum", max)


def upper(part: Plain) -> Bound | None:
    return _tightest(part, "maximum", "exclusiveMaximum", min)


def _tightest(part: Plain, keyword: str, exclusive: str, choose: Any) -> Bound | None:
    plain, strict = part.get(keyword), part.get(exclusive)
    if isinstance(strict, bool):  # draft 4
        return None if plain is None else Bound(plain, strict)
    found = [Bound(value, excluded) for value, excluded in ((plain, False), (strict, True)) if value is not None]
    if not found:
        return None
    value = choose(one.value for one in found)
    return Bound(value, any(one.excluded for one in found if one.value == value))


def lowest(conjunction: Conjunction) -> Bound | None:
    """The lower bound that all parts together give; of finite values the smallest."""
    numbers = _numbers(conjunction)
    if numbers:
        return Bound(min(numbers), False)
    return _joined((lower(part) for part in conjunction.parts), max)


def highest(conjunction: Conjunction) -> Bound | None:
    numbers = _numbers(conjunction)
    if numbers:
        return Bound(max(numbers), False)
    return _joined((upper(part) for part in conjunction.parts), min)


def _joined(bounds: Iterable[Bound | None], choose: Any) -> Bound | None:
    found = [one for one in bounds if one is not None]
    if not found:
        return None
    value = choose(one.value for one in found)
    return Bound(value, any(one.excluded for one in found if one.value == value))


def _numbers(conjunction: Conjunction) -> list[float]:
    values = finite(conjunction) or []
    return [value for value in values if type_of(value) in ("integer", "number")]


# keyword of the least size, of the greatest, and the type that it measures
SIZES: Final = (
    ("minLength", "maxLength", "string"),
    ("minItems", "maxItems", "array"),
    ("minProperties", "maxProperties", "object"),
)


def least_size(conjunction: Conjunction, keyword: str, kind: str) -> int:
    sizes = _sizes(conjunction, kind)
    if sizes:
        return min(sizes)
    known = max(conjunction.values(keyword), default=0)
    return max(known, len(required(conjunction))) if kind == "object" else int(known)


def most_size(conjunction: Conjunction, keyword: str, kind: str) -> int | None:
    sizes = _sizes(conjunction, kind)
    return max(sizes) if sizes else min(conjunction.values(keyword), default=None)


def _sizes(conjunction: Conjunction, kind: str) -> list[int]:
    return [len(value) for value in finite(conjunction) or [] if type_of(value) == kind]


def required(conjunction: Conjunction) -> set[str]:
    names: set[str] = set()
    for listed in conjunction.values("required"):
        names.update(listed if isinstance(listed, list) else ())
    values = finite(conjunction)
    if values and all(isinstance(value, dict) for value in values):
        names |= set.intersection(*(set(value) for value in values))
    return names
