"""Objects of JSON Schemas: properties by name and by pattern, all others, and which must be there."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from goqueue.core.compat.breaks import Incompatibility
from goqueue.core.compat.json_facts import Conjunction, Plain, finite, required
from goqueue.core.compat.json_values import stays
from goqueue.core.schemas.json_schema import JsonPattern

if TYPE_CHECKING:
    from goqueue.core.compat.json_schema import JsonProof

_IN_PLACE = {"allOf", "anyOf", "oneOf", "not", "if", "$ref", "$dynamicRef", "dependentSchemas"}


@lru_cache(256)
def _pattern(text: str) -> JsonPattern:
    return JsonPattern(text)


def object_breaks(proof: JsonProof, part: Plain, writer: Conjunction) -> Iterator[Incompatibility]:
    yield from _required_breaks(part, writer)
    names = {**_named(part), **{name: None for one in writer.parts for name in _named(one)}}
    names |= {name: None for value in finite(writer) or [] if isinstance(value, dict) for name in value}
    for name in names:
        yield from _property_breaks(proof, part, writer, name)
    yield from _pattern_breaks(proof, part, writer)
    yield from _other_breaks(proof, part, writer)
    yield from _name_breaks(proof, part, writer)
    yield from _dependent_breaks(proof, part, writer)
    unproven = part.says("unevaluatedProperties") and part.schema.keys() & _IN_PLACE
    if unproven and not stays(part, writer, "unevaluatedProperties"):
        message = "unevaluatedProperties beside combinations cannot be compared"
        yield Incompatibility("UNEVALUATED_PROPERTIES_UNPROVEN", part.path, message)


def _required_breaks(part: Plain, writer: Conjunction) -> Iterator[Incompatibility]:
    listed = part.get("required")
    present = required(writer)
    for name in listed if isinstance(listed, list) else ():
        if name not in present:
            yield Incompatibility(
                "REQUIRED_ATTRIBUTE_ADDED", f"{part.path}/properties/{_step(name)}", f"{name!r} is required now"
            )


def _named(part: Plain) -> dict[str, Any]:
    found = part.get("properties")
    return found if isinstance(found, dict) else {}


def _patterned(part: Plain) -> dict[str, Any]:
    found = part.get("patternProperties")
    return found if isinstance(found, dict) else {}


def others(part: Plain) -> Any:
    """The schema of properties that nothing names. `unevaluated` means the same where there is nothing to evaluate."""
    for keyword in ("additionalProperties", "unevaluatedProperties"):
        if part.says(keyword) and not (keyword[0] == "u" and part.schema.keys() & _IN_PLACE):
            return part.schema[keyword]
    return True


def applying(part: Plain, name: str) -> list[tuple[Any, str]]:
    """Every schema that the part applies to a property, with its path."""
    found: list[tuple[Any, str]] = []
    if name in _named(part):
        found.append((_named(part)[name], f"{part.path}/properties/{_step(name)}"))
    for pattern, schema in _patterned(part).items():
        if _pattern(pattern).matches(name):
            found.append((schema, f"{part.path}/patternProperties/{_step(pattern)}"))
    return found or [(others(part), f"{part.path}/additionalProperties")]


def property_of(proof: JsonProof, writer: Conjunction, name: str) -> Conjunction:
    parts: list[Plain] = []
    proof.spend(len(writer.parts))
    for one in writer.parts:
        for schema, path in applying(one, name):
            parts += proof.parts(schema, one.document, path)
    values = finite(writer)
    if values is not None and values and all(isinstance(value, dict) and name in value for value in values):
        document = writer.parts[0].document
        parts.append(proof.made("enum", [value[name] for value in values], document, writer.parts[0].path))
    return Conjunction(tuple(parts))


def _property_breaks(proof: JsonProof, part: Plain, writer: Conjunction, name: str) -> Iterator[Incompatibility]:
    values = finite(writer)
    if values is not None and not any(isinstance(value, dict) and name in value for value in values):
        return
    written = property_of(proof, writer, name)
    for schema, path in applying(part, name):
        if schema is False and not _is_named(part, name):
            yield from _closed(proof, part, written, name)
            continue
        breaks = proof.prove(schema, part.document, path, written)
        if breaks and name in _named(part) and not any(_is_named(one, name) for one in writer.parts):
            message = f"{name!r} was not described before, so data may hold anything there; {breaks[0].reason}"
            yield Incompatibility("PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL", path, message)
        else:
            yield from breaks


def _is_named(part: Plain, name: str) -> bool:
    return name in _named(part)


def _closed(proof: JsonProof, part: Plain, written: Conjunction, name: str) -> Iterator[Incompatibility]:
    if proof.prove(False, part.document, part.path, written):
        message = f"{name!r} is not accepted any more: no other properties are"
        yield Incompatibility(
            "PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL", f"{part.path}/properties/{_step(name)}", message
        )


def _pattern_breaks(proof: JsonProof, part: Plain, writer: Conjunction) -> Iterator[Incompatibility]:
    """The reader's patterns against whatever the writer says of names that match them."""
    for pattern, schema in _patterned(part).items():
        path = f"{part.path}/patternProperties/{_step(pattern)}"
        yield from proof.prove(schema, part.document, path, _under_pattern(proof, writer, pattern))


def _under_pattern(proof: JsonProof, writer: Conjunction, pattern: str) -> Conjunction:
    """What surely holds for names that match: the same pattern's schema; else, without patterns, that of all others."""
    parts: list[Plain] = []
    for one in writer.parts:
        known = _patterned(one)
        if pattern in known:
            parts += proof.parts(known[pattern], one.document, f"{one.path}/patternProperties/{_step(pattern)}")
        elif not known:
            parts += proof.parts(others(one), one.document, f"{one.path}/additionalProperties")
    return Conjunction(tuple(parts))


def _other_breaks(proof: JsonProof, part: Plain, writer: Conjunction) -> Iterator[Incompatibility]:
    """Names that neither side knows, and names under patterns that only the writer has."""
    if finite(writer) is not None:
        return
    schema, path = others(part), f"{part.path}/additionalProperties"
    rest: list[Plain] = []
    for one in writer.parts:
        rest += proof.parts(others(one), one.document, f"{one.path}/additionalProperties")
    breaks = proof.prove(schema, part.document, path, Conjunction(tuple(rest)))
    if breaks and schema is False:
        breaks = [Incompatibility("ADDITIONAL_PROPERTIES_REMOVED", path, "other properties are not accepted any more")]
    elif breaks:
        message = f"other properties are narrower now: {breaks[0].reason}"
        breaks = [Incompatibility("ADDITIONAL_PROPERTIES_NARROWED", breaks[0].path, message)]
    yield from breaks
    for pattern in {name: None for one in writer.parts for name in _patterned(one)}:
        if pattern not in _patterned(part):
            yield from proof.prove(schema, part.document, path, _under_pattern(proof, writer, pattern))


def _name_breaks(proof: JsonProof, part: Plain, writer: Conjunction) -> Iterator[Incompatibility]:
    own = part.get("propertyNames")
    if own is None:
        return
    path = f"{part.path}/propertyNames"
    document = part.document
    parts = [proof.made("type", "string", document, path)]
    for one in writer.parts:
        if one.get("propertyNames") is not None:
            parts += proof.parts(one.schema["propertyNames"], one.document, path)
    if any(others(one) is False and not _patterned(one) for one in writer.parts):
        names = [sorted(_named(one)) for one in writer.parts if others(one) is False and not _patterned(one)]
        parts.append(proof.made("enum", min(names, key=len), document, path))
    yield from proof.prove(own, document, path, Conjunction(tuple(parts)))


def _dependent_breaks(proof: JsonProof, part: Plain, writer: Conjunction) -> Iterator[Incompatibility]:
    for keyword in ("dependentRequired", "dependentSchemas", "dependencies"):
        listed = part.get(keyword)
        for name, wanted in listed.items() if isinstance(listed, dict) else ():
            path = f"{part.path}/{keyword}/{_step(name)}"
            case = writer.plus(proof.made("required", [name], part.document, path))
            if isinstance(wanted, list):
                missing = sorted(set(wanted) - _implied(case, name))
                if missing and not _cannot_be(proof, writer, name):
                    message = f"with {name!r} there must be {', '.join(missing)} now"
                    yield Incompatibility("DEPENDENCY_ADDED", path, message)
            elif not _cannot_be(proof, writer, name):
                case = writer.plus(
                    proof.made("required", [name], part.document, path), *_dependent(proof, writer, name)
                )
                yield from proof.prove(wanted, part.document, path, case)


def _implied(writer: Conjunction, name: str) -> set[str]:
    found = required(writer)
    for keyword in ("dependentRequired", "dependencies"):
        for listed in writer.values(keyword):
            implied = listed.get(name)
            found |= set(implied) if isinstance(implied, list) else set()
    return found


def _dependent(proof: JsonProof, writer: Conjunction, name: str) -> Iterator[Plain]:
    for one in writer.parts:
        for keyword in ("dependentSchemas", "dependencies"):
            schema = (one.get(keyword) or {}).get(name)
            if isinstance(schema, dict | bool):
                yield from proof.parts(schema, one.document, f"{one.path}/{keyword}/{_step(name)}")


def _cannot_be(proof: JsonProof, writer: Conjunction, name: str) -> bool:
    return (
        not proof.prove(False, writer.parts[0].document, "#", property_of(proof, writer, name))
        if writer.parts
        else False
    )


def _step(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")
