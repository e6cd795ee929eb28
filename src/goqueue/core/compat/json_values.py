"""Numbers, strings and arrays of JSON Schemas: is the reader's limit no tighter than the writer's?"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from goqueue.core.compat.breaks import Incompatibility
from goqueue.core.compat.json_facts import (
    SIZES,
    Bound,
    Conjunction,
    Plain,
    finite,
    highest,
    least_size,
    lower,
    lowest,
    most_size,
    types_of,
    upper,
)
from goqueue.core.schemas.json_schema import JsonPattern

if TYPE_CHECKING:
    from goqueue.core.compat.json_schema import JsonProof

_EXACT = ("format", "contentEncoding", "contentMediaType")


def scalar_breaks(part: Plain, writer: Conjunction) -> Iterator[Incompatibility]:
    types = types_of(writer)
    if types & {"integer", "number"}:
        yield from _number_breaks(part, writer)
    if "string" in types:
        yield from _string_breaks(part, writer)
    for least, most, kind in SIZES:
        if kind in types:
            yield from _size_breaks(part, writer, least, most, kind)


def _number_breaks(part: Plain, writer: Conjunction) -> Iterator[Incompatibility]:
    low, high = lower(part), upper(part)
    if low is not None and not _no_tighter(low, lowest(writer), 1):
        yield Incompatibility("MINIMUM_INCREASED", part.path, f"numbers must be {_shown(low, 'over', 'at least')} now")
    if high is not None and not _no_tighter(high, highest(writer), -1):
        yield Incompatibility("MAXIMUM_DECREASED", part.path, f"numbers must be {_shown(high, 'under', 'at most')} now")
    step = part.get("multipleOf")
    if step is not None and not _steps_fit(step, writer):
        yield Incompatibility("MULTIPLE_OF_CHANGED", part.path, f"numbers must be multiples of {step} now")


def _shown(bound: Bound, strict: str, plain: str) -> str:
    return f"{strict if bound.excluded else plain} {bound.value}"


def _no_tighter(own: Bound, written: Bound | None, sign: int) -> bool:
    if written is None:
        return False
    if own.value == written.value:
        return written.excluded or not own.excluded
    return (written.value - own.value) * sign > 0


def _steps_fit(step: float, writer: Conjunction) -> bool:
    values = finite(writer)
    if values is not None:
        numbers = [value for value in values if isinstance(value, int | float) and not isinstance(value, bool)]
        return all(_is_multiple(value, step) for value in numbers)
    steps = list(writer.values("multipleOf"))
    if "number" not in types_of(writer):
        steps.append(1)
    return any(_is_multiple(one, step) for one in steps)


def _is_multiple(value: float, step: float) -> bool:
    return Fraction(str(value)) % Fraction(str(step)) == 0


def _string_breaks(part: Plain, writer: Conjunction) -> Iterator[Incompatibility]:
    pattern = part.get("pattern")
    if pattern is not None and pattern not in writer.values("pattern") and not _all_match(pattern, writer):
        yield Incompatibility("PATTERN_CHANGED", part.path, f"text must match {pattern[:100]!r} now")
    for keyword in _EXACT:
        own = part.get(keyword)
        if own is not None and own not in writer.values(keyword):
            message = f"text must be of {keyword} {str(own)[:100]!r} now"
            yield Incompatibility(f"{_words(keyword)}_CHANGED", part.path, message)


def _all_match(pattern: str, writer: Conjunction) -> bool:
    values = finite(writer)
    if values is None:
        return False
    engine = JsonPattern(pattern)
    return all(engine.matches(value) for value in values if isinstance(value, str))


def _size_breaks(part: Plain, writer: Conjunction, least: str, most: str, kind: str) -> Iterator[Incompatibility]:
    low, high = part.get(least), part.get(most)
    if low is not None and low > least_size(writer, least, kind):
        yield Incompatibility(f"{_words(least)}_INCREASED", part.path, f"{least} is {low} now")
    if high is not None:
        written = most_size(writer, most, kind)
        if kind == "array" and written is None:
            written = closed_length(writer)
        if written is None or high < written:
            yield Incompatibility(f"{_words(most)}_DECREASED", part.path, f"{most} is {high} now")


def _words(name: str) -> str:
    return "".join(f"_{one}" if one.isupper() else one for one in name).upper()


# --- arrays ---------------------------------------------------------------------------------------------------


def tuple_of(part: Plain) -> tuple[list[Any], str, Any]:
    """The schemas of the first places, the keyword that they stand under, and the schema of all further ones."""
    prefix, items = part.get("prefixItems"), part.get("items")
    if isinstance(items, list):
        return items, "items", part.get("additionalItems") if part.get("additionalItems") is not None else True
    if items is None and part.get("unevaluatedItems") is not None and not _has_in_place(part):
        items = part.get("unevaluatedItems")
    rest = True if items is None else items
    return (prefix if isinstance(prefix, list) and part.document.draft >= 2020 else []), "prefixItems", rest


def _has_in_place(part: Plain) -> bool:
    return bool(part.schema.keys() & {"allOf", "anyOf", "oneOf", "not", "if", "$ref", "$dynamicRef", "contains"})


def closed_length(writer: Conjunction) -> int | None:
    """How long an array can be because nothing may follow its named places."""
    lengths = [len(first) for first, _, rest in map(tuple_of, writer.parts) if rest is False]
    return min(lengths, default=None)


def array_breaks(proof: JsonProof, part: Plain, writer: Conjunction) -> Iterator[Incompatibility]:
    first, keyword, rest = tuple_of(part)
    longest = max([len(first), *(len(tuple_of(one)[0]) for one in writer.parts)])
    ends = most_size(writer, "maxItems", "array")
    for place in range(longest):
        if ends is not None and place >= ends:
            break
        schema, path = (
            (first[place], f"{part.path}/{keyword}/{place}") if place < len(first) else (rest, f"{part.path}/items")
        )
        yield from proof.prove(schema, part.document, path, _item(proof, writer, place))
    if ends is None or ends > longest:
        yield from proof.prove(rest, part.document, f"{part.path}/items", _item(proof, writer, longest))
    yield from _array_keyword_breaks(proof, part, writer)


def _item(proof: JsonProof, writer: Conjunction, place: int) -> Conjunction:
    parts: list[Plain] = []
    for one in writer.parts:
        first, keyword, rest = tuple_of(one)
        schema, path = (
            (first[place], f"{one.path}/{keyword}/{place}") if place < len(first) else (rest, f"{one.path}/items")
        )
        parts += proof.parts(schema, one.document, path)
    return Conjunction(tuple(parts))


def _array_keyword_breaks(proof: JsonProof, part: Plain, writer: Conjunction) -> Iterator[Incompatibility]:
    many = most_size(writer, "maxItems", "array")
    if part.get("uniqueItems") is True and True not in writer.values("uniqueItems") and (many is None or many > 1):
        yield Incompatibility("UNIQUE_ITEMS_ADDED", part.path, "items must be different now")
    if part.get("contains") is not None:
        yield from _contains_breaks(proof, part, writer)
    if part.get("unevaluatedItems") is not None and _has_in_place(part) and not stays(part, writer, "unevaluatedItems"):
        yield Incompatibility(
            "UNEVALUATED_ITEMS_UNPROVEN", part.path, "unevaluatedItems beside combinations cannot be compared"
        )


def _contains_breaks(proof: JsonProof, part: Plain, writer: Conjunction) -> Iterator[Incompatibility]:
    wanted, path = part.schema["contains"], f"{part.path}/contains"
    least, most = part.get("minContains"), part.get("maxContains")
    least = 1 if least is None else least
    kept = [one for one in writer.parts if one.get("contains") is not None]
    if least > 0 and not any(
        _contains_least(one) >= least and not _item_breaks(proof, wanted, part, one) for one in kept
    ):
        every = least_size(writer, "minItems", "array") >= least and not proof.prove(
            wanted, part.document, path, _item(proof, writer, 1 << 30)
        )
        if not every or any(tuple_of(one)[0] for one in writer.parts):
            yield Incompatibility("CONTAINS_CHANGED", path, "arrays must contain such items now")
    if most is not None and (most_size(writer, "maxItems", "array") or most + 1) > most:
        own = proof.conjunction(wanted, part.document, path)
        if not any(
            one.get("maxContains") is not None
            and one.get("maxContains") <= most
            and not proof.prove(one.schema["contains"], one.document, path, own)
            for one in kept
        ):
            yield Incompatibility(
                "MAX_CONTAINS_DECREASED", part.path, f"arrays may contain at most {most} such items now"
            )


def _contains_least(one: Plain) -> int:
    least = one.get("minContains")
    return 1 if least is None else int(least)


def _item_breaks(proof: JsonProof, wanted: Any, part: Plain, one: Plain) -> list[Incompatibility]:
    path = f"{part.path}/contains"
    return proof.prove(wanted, part.document, path, proof.conjunction(one.schema["contains"], one.document, path))


def stays(part: Plain, writer: Conjunction, keyword: str) -> bool:
    """Word for word the same schema, without references: then it means the same."""
    if "$ref" in str(part.schema) or "$dynamicRef" in str(part.schema):
        return False
    return part.get(keyword) is True or any(one.schema == part.schema for one in writer.parts)
