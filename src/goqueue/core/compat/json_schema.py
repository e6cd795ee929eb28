"""Compares JSON Schemas by meaning: does the reader accept every value that the writer accepts?

It is a proof by cases. Where no proof is found the answer is a break that says so: a schema is never called compatible
because it was too hard. The writer is held as a conjunction of plain schemas; its alternatives are tried one by one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from goqueue.base.limits import SCHEMA_COMPARE_STEPS_MAX
from goqueue.core.compat.breaks import GiveUp, Incompatibility, TooHard, distinct, never
from goqueue.core.compat.json_disjoint import are_disjoint
from goqueue.core.compat.json_facts import (
    Conjunction,
    Plain,
    finite,
    own_types,
    own_values,
    type_of,
    types_of,
    value_key,
)
from goqueue.core.compat.json_objects import object_breaks
from goqueue.core.compat.json_values import array_breaks, scalar_breaks
from goqueue.core.schemas.json_schema import REFS, JsonDocument
from goqueue.core.schemas.json_text import canonical_json

_DEPTH_MAX: Final = 100
_CASES_MAX: Final = 64
_ANYTHING: Final[dict[str, Any]] = {}
_NOTHING: Final[dict[str, Any]] = {"not": _ANYTHING}


def compare(reader: JsonDocument, writer: JsonDocument, give_up: GiveUp = never) -> list[Incompatibility]:
    """Why the reader may refuse what the writer accepts; empty if it never does."""
    if reader.canonical == writer.canonical and reader.same_references(writer):
        return []
    try:
        proof = JsonProof(give_up)
        return distinct(proof.prove(reader.root, reader, "#", proof.conjunction(writer.root, writer, "#")))
    except (TooHard, RecursionError):
        return [Incompatibility("TOO_COMPLEX", "#", "the schemas are too complex to compare; treated as incompatible")]


class JsonProof:
    """One comparison: what is being proven already, and how many steps it took."""

    def __init__(self, give_up: GiveUp = never) -> None:
        self._give_up = give_up
        self._under_way: set[tuple[object, ...]] = set()
        self._made: dict[tuple[str, str], dict[str, Any]] = {}
        self._free: dict[int, bool] = {}
        self._steps = 0
        self._depth = 0

    def spend(self, steps: int) -> None:
        """Everything that looks at schemas counts: nobody can make it go on for long."""
        self._steps += steps
        if self._steps > SCHEMA_COMPARE_STEPS_MAX or self._give_up():
            raise TooHard

    # --- taking apart --------------------------------------------------------------------------------------

    def conjunction(self, schema: Any, document: JsonDocument, path: str) -> Conjunction:
        return Conjunction(tuple(self.parts(schema, document, path)))

    def parts(self, schema: Any, document: JsonDocument, path: str) -> Iterator[Plain]:
        """The schema without `$ref` and `allOf`. Circles of those were refused when it was parsed."""
        if not isinstance(schema, dict):
            schema = _ANYTHING if schema is True else _NOTHING
        plain = Plain(schema, document, path, frozenset({"allOf", *REFS}))
        for ref, target in document.targets(schema):
            if target is None:
                raise TooHard(ref)
            yield from self.parts(target, document, path)
            if document.draft_of(schema) <= 7:
                return  # there `$ref` stands alone
        self.spend(1)
        if schema.keys() - plain.done:
            yield plain
        for number, one in enumerate(schema.get("allOf", ())):
            yield from self.parts(one, document, f"{path}/allOf/{number}")

    def made(self, keyword: str, value: Any, document: JsonDocument, path: str) -> Plain:
        """A schema of one keyword; always the same object, so that a repetition is seen."""
        schema = self._made.setdefault((keyword, canonical_json(value)), {keyword: value})
        return Plain(schema, document, path)

    # --- proving -------------------------------------------------------------------------------------------

    def prove(self, schema: Any, document: JsonDocument, path: str, writer: Conjunction) -> list[Incompatibility]:
        if schema is True or schema == _ANYTHING:
            return []
        self.spend(1 + len(writer.parts))
        if self._is_part(schema, writer):
            return []
        key = (id(schema) if isinstance(schema, dict) else schema, writer.key)
        if key in self._under_way:
            return []  # what follows from itself holds: data is finite
        if self._depth > _DEPTH_MAX:
            raise TooHard(path)
        self._under_way.add(key)
        self._depth += 1
        try:
            return self._prove(schema, document, path, writer)
        finally:
            self._under_way.discard(key)
            self._depth -= 1

    def _is_part(self, schema: Any, writer: Conjunction) -> bool:
        """The writer asks for the very same already. A case that was chosen from a part still has all of it."""
        return any(part.schema == schema for part in writer.parts) and self._has_no_refs(schema)

    def _has_no_refs(self, schema: Any) -> bool:
        known = self._free.get(id(schema))
        if known is None:
            known = self._free[id(schema)] = not any(f'"{ref}"' in canonical_json(schema) for ref in REFS)
        return known

    def _prove(self, schema: Any, document: JsonDocument, path: str, writer: Conjunction) -> list[Incompatibility]:
        if not types_of(writer) or self._is_nothing(writer):
            return []
        if schema is False:
            return [Incompatibility("NOTHING_ACCEPTED", path, "nothing is accepted here any more")]
        cases = self.cases(writer)
        if cases is not None:
            return distinct([found for case in cases for found in self.prove(schema, document, path, case)])
        breaks: list[Incompatibility] = []
        for part in self.parts(schema, document, path):
            breaks += self._prove_part(part, writer)
        return breaks

    def _is_nothing(self, writer: Conjunction) -> bool:
        return any(part.get("not") in (True, _ANYTHING) for part in writer.parts)

    def cases(self, writer: Conjunction) -> list[Conjunction] | None:
        """The writer's first choice, taken apart; None if it leaves none."""
        for place, part in enumerate(writer.parts):
            others = (*writer.parts[:place], *writer.parts[place + 1 :])
            for keyword in ("anyOf", "oneOf"):
                listed = part.get(keyword)
                if isinstance(listed, list):
                    rest = Conjunction((*others, part._replace(done=part.done | {keyword})), writer.negated)
                    return [self._case(rest, part, keyword, number) for number in range(len(listed))]
            if part.get("if") is not None:
                rest = Conjunction((*others, part._replace(done=part.done | {"if"})), writer.negated)
                return self._conditional(rest, part)
        return None

    def _case(self, rest: Conjunction, part: Plain, keyword: str, number: int) -> Conjunction:
        listed = part.schema[keyword]
        chosen = self.parts(listed[number], part.document, f"{part.path}/{keyword}/{number}")
        negated = rest.negated
        if keyword == "oneOf":
            negated += tuple((one, part.document) for other, one in enumerate(listed) if other != number)
        return Conjunction(rest.parts + tuple(chosen), negated)

    def _conditional(self, rest: Conjunction, part: Plain) -> list[Conjunction]:
        condition, document = part.schema["if"], part.document
        both = (*self.parts(condition, document, f"{part.path}/if"), *self._branch(part, "then"))
        holds = Conjunction(rest.parts + both, rest.negated)
        fails = Conjunction(rest.parts + tuple(self._branch(part, "else")), (*rest.negated, (condition, document)))
        return [holds, fails]

    def _branch(self, part: Plain, keyword: str) -> Iterator[Plain]:
        branch = part.schema.get(keyword)
        if branch is not None:
            yield from self.parts(branch, part.document, f"{part.path}/{keyword}")

    # --- one schema of the reader --------------------------------------------------------------------------

    def _prove_part(self, part: Plain, writer: Conjunction) -> list[Incompatibility]:
        breaks = [*_type_breaks(part, writer), *_value_breaks(part, writer)]
        if breaks:
            return breaks
        breaks += scalar_breaks(part, writer)
        types = types_of(writer)
        if "array" in types:
            breaks += array_breaks(self, part, writer)
        if "object" in types:
            breaks += object_breaks(self, part, writer)
        return breaks + self._combined_breaks(part, writer)

    def _combined_breaks(self, part: Plain, writer: Conjunction) -> list[Incompatibility]:
        breaks: list[Incompatibility] = []
        if isinstance(part.get("anyOf"), list):
            breaks += self._any_of(part, writer)
        if isinstance(part.get("oneOf"), list):
            breaks += self._one_of(part, writer)
        if part.get("not") is not None:
            breaks += self._not(part, part.schema["not"], writer, f"{part.path}/not")
        if part.get("if") is not None:
            breaks += self._if(part, writer)
        return breaks

    def _any_of(self, part: Plain, writer: Conjunction) -> list[Incompatibility]:
        for case in self._split(part, writer):
            if self._taken(part, "anyOf", case) is None:
                return [self._no_branch(part, "anyOf", case)]
        return []

    def _one_of(self, part: Plain, writer: Conjunction) -> list[Incompatibility]:
        for case in self._split(part, writer):
            taken = self._taken(part, "oneOf", case)
            if taken is None:
                return [self._no_branch(part, "oneOf", case)]
            for number, other in enumerate(part.schema["oneOf"]):
                if number != taken and self._not(part, other, case, f"{part.path}/oneOf/{number}"):
                    message = "a value may fit more than one branch now"
                    return [Incompatibility("SUM_TYPE_AMBIGUOUS", f"{part.path}/oneOf/{number}", message)]
        return []

    def _taken(self, part: Plain, keyword: str, writer: Conjunction) -> int | None:
        """The first branch that accepts the writer; one that looks the same is tried first."""
        branches = part.schema[keyword]
        likely = [n for n, branch in enumerate(branches) if any(one.schema == branch for one in writer.parts)]
        for number in (*likely, *(n for n in range(len(branches)) if n not in likely)):
            if not self._branch_breaks(part, keyword, number, writer):
                return number
        return None

    def _branch_breaks(self, part: Plain, keyword: str, number: int, writer: Conjunction) -> list[Incompatibility]:
        branch, path = part.schema[keyword][number], f"{part.path}/{keyword}/{number}"
        return self.prove(branch, part.document, path, writer)

    def _no_branch(self, part: Plain, keyword: str, writer: Conjunction) -> Incompatibility:
        """Says why the branch that comes nearest does not do."""
        tried = [self._branch_breaks(part, keyword, number, writer) for number in range(len(part.schema[keyword]))]
        nearest = min((one for one in tried if one), key=len, default=[])
        error = f"; the nearest: {nearest[0].reason} at {nearest[0].path}" if nearest else ""
        return Incompatibility(
            "SUM_TYPE_NARROWED", f"{part.path}/{keyword}", f"no branch accepts what the other schema does{error}"
        )

    def _split(self, part: Plain, writer: Conjunction) -> list[Conjunction]:
        """By value if there are few, else by type, so that each case can take a branch of its own."""
        document, path = part.document, part.path
        values, types = finite(writer), sorted(types_of(writer))
        if values is not None and 1 < len(values) <= _CASES_MAX:
            return [writer.plus(self.made("enum", [value], document, path)) for value in values]
        if values is None and len(types) > 1 and types != ["integer", "number"]:
            return [writer.plus(self.made("type", one, document, path)) for one in types]
        return [writer]

    def _not(self, part: Plain, negated: Any, writer: Conjunction, path: str) -> list[Incompatibility]:
        """No value of the writer may fit what the reader rules out."""
        if any(schema == negated for schema, _ in writer.negated) and self._has_no_refs(negated):
            return []
        as_reader = self.conjunction(negated, part.document, path)
        if are_disjoint(self, as_reader, writer):
            return []
        ruled_out = [*writer.negated, *((one.schema["not"], one.document) for one in writer.parts if one.get("not"))]
        for schema, document in ruled_out:
            if not self.prove(schema, document, path, as_reader):
                return []
        return [Incompatibility("NOT_EXTENDED", path, "values may be ruled out that the other schema accepts")]

    def _if(self, part: Plain, writer: Conjunction) -> list[Incompatibility]:
        condition, document, path = part.schema["if"], part.document, part.path
        breaks: list[Incompatibility] = []
        if "then" in part.schema:
            case = Conjunction((*writer.parts, *self.parts(condition, document, f"{path}/if")), writer.negated)
            breaks += self.prove(part.schema["then"], document, f"{path}/then", case)
        if "else" in part.schema:
            case = Conjunction(writer.parts, (*writer.negated, (condition, document)))
            if not self._excludes_negated(case):
                breaks += self.prove(part.schema["else"], document, f"{path}/else", case)
        return breaks

    def _excludes_negated(self, writer: Conjunction) -> bool:
        """Everything the writer accepts is ruled out, so there is nothing left to prove."""
        positive = Conjunction(writer.parts)
        return any(not self.prove(schema, document, "#", positive) for schema, document in writer.negated)


def _type_breaks(part: Plain, writer: Conjunction) -> Iterator[Incompatibility]:
    own, written = own_types(part), types_of(writer)
    missing = sorted(written - own)
    if missing:
        kind = "TYPE_CHANGED" if not written & own else "TYPE_NARROWED"
        shown = "any type" if len(missing) == 7 else ", ".join(missing)
        yield Incompatibility(
            kind, part.path, f"{shown} is not accepted; accepted are {', '.join(sorted(own)) or 'none'}"
        )


def _value_breaks(part: Plain, writer: Conjunction) -> Iterator[Incompatibility]:
    allowed = own_values(part)
    if allowed is None:
        return
    known = {value_key(value) for value in allowed}
    values = finite(writer)
    if values is None and types_of(writer) <= {"boolean", "null"}:
        values = [value for value in (True, False, None) if type_of(value) in types_of(writer)]
    if values is None:
        yield Incompatibility("ENUM_ARRAY_ADDED", part.path, "only listed values are accepted now")
        return
    missing = [value_key(value) for value in values if value_key(value) not in known]
    if missing:
        yield Incompatibility(
            "ENUM_ARRAY_NARROWED", part.path, f"not accepted any more: {', '.join(missing[:10])[:200]}"
        )
