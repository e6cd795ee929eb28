"""What checking a value against a JSON Schema may cost, found out before any value is seen.

A step is one keyword looked at for one value. Keywords that look at the same value again (`anyOf`, `$ref` and the like)
multiply each other, and so do those that lead into the value where a schema holds itself. A schema that asks too
much for a single value is refused; how much a message may ask is decided by `json_work`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from goqueue.base.limits import (
    SCHEMA_ANALYSIS_STEPS_MAX,
    SCHEMA_PATTERN_STATES_MAX,
    SCHEMA_SUBSCHEMAS_MAX,
    SCHEMA_VALUE_STEPS_MAX,
)
from goqueue.core.schemas.errors import InvalidSchema
from goqueue.core.schemas.json_loops import find_loops
from goqueue.core.schemas.regex_size import regex_states

if TYPE_CHECKING:
    from goqueue.core.schemas.json_schema import JsonDocument

Node = dict[str, Any]
Label = str | int

_LISTS: Final = ("allOf", "anyOf", "oneOf")
_SINGLE: Final = ("not", "if", "then", "else")
_NAMED_IN_PLACE: Final = ("dependentSchemas", "dependencies")
_MEMBERS: Final = ("additionalProperties", "unevaluatedProperties", "propertyNames")
_ELEMENTS: Final = ("additionalItems", "unevaluatedItems", "contains")
_CHOICES: Final = frozenset({"anyOf", "oneOf", "contains", "not", "if"})
_UNEVALUATED: Final = frozenset({"unevaluatedProperties", "unevaluatedItems"})
_UNEVALUATED_FACTOR: Final = 3  # the engine looks again at everything beside them
_EQUAL_STEPS: Final = 6  # to hold a value against a listed array or object
_STEPS_PER_STATE: Final = 0.7  # of a pattern, for each byte of text
_TEXT_STEPS: Final = {
    "minLength": 0.1,
    "maxLength": 0.1,
    "format": 0.5,
    "contentMediaType": 0.5,
    "contentEncoding": 0.5,
}
_HASHED: Final[Node] = {"const": [0]}  # stands for what `uniqueItems` does with each item


class SubschemaCost:
    """One subschema alone: its own steps, and where it leads."""

    __slots__ = ("elements", "in_place", "leaf", "members", "named", "text", "whole")

    def __init__(self, node: Node, document: JsonDocument) -> None:
        self.text = sum(_TEXT_STEPS.get(keyword, 0.0) for keyword in node)
        pattern = node.get("pattern")
        if isinstance(pattern, str):
            self.text += _STEPS_PER_STATE * regex_states(pattern)
        self.leaf = 1 + len(node) + _listed(node)  # steps for a string, a number, ...
        self.whole = self.leaf + _counted(node)  # steps for an object or an array
        factor = 1 if _UNEVALUATED.isdisjoint(node) else _UNEVALUATED_FACTOR
        self.in_place = [(one, factor) for one in in_place(node, document)]
        self.named: dict[Label, list[Node]] = {}
        self.members = [one for keyword in _MEMBERS for one in _schemas(node.get(keyword))]
        self.elements = [one for keyword in _ELEMENTS for one in _schemas(node.get(keyword))]
        self._lead_into(node)

    def _lead_into(self, node: Node) -> None:
        for name, one in _dict(node.get("properties")).items():
            self.named.setdefault(name, []).extend(_schemas(one))
        for pattern, one in _dict(node.get("patternProperties")).items():
            self.members += [{"pattern": pattern}, *_schemas(one)]
        for keyword in ("prefixItems", "items"):
            listed = node.get(keyword)
            for place, one in enumerate(listed if isinstance(listed, list) else ()):
                self.named.setdefault(place, []).extend(_schemas(one))
        self.elements += _schemas(node.get("items"))
        if node.get("uniqueItems"):
            self.elements.append(_HASHED)


class Reach:
    """A subschema with all that looks at the same value, each as often as it does."""

    __slots__ = ("elements", "leaf", "members", "named", "node", "text", "whole")

    def __init__(self, node: Node) -> None:
        self.node = node
        self.leaf = self.whole = 0
        self.text = 0.0
        self.named: dict[Label, dict[int, int]] = {}
        self.members: dict[int, int] = {}
        self.elements: dict[int, int] = {}


class JsonCost:
    """Built once for a document; `InvalidSchema` if it asks too much. `reach` leads on into a value."""

    def __init__(self, document: JsonDocument) -> None:
        self._document = document
        self._parts: dict[int, SubschemaCost] = {}
        self._nodes: dict[int, Node] = {}  # also keeps every node alive, so that ids stay theirs
        self._reach: dict[int, Reach] = {}
        self._steps = 0
        self._gather(document.root)
        self.has_choices = any(not _CHOICES.isdisjoint(node) for node in self._nodes.values())
        states = sum(part.text for part in self._parts.values()) / _STEPS_PER_STATE
        if states > SCHEMA_PATTERN_STATES_MAX:
            raise _too_much("its patterns together are too large to run in linear time")
        self.loops = find_loops(list(self._parts), self._following)
        self.start: Reach | None = None  # of the whole value; None if the schema is `true` or `false`
        if isinstance(document.root, dict):
            self.start = self.reach(id(document.root))

    def _gather(self, root: Any) -> None:
        """Every subschema that a value can meet."""
        waiting = _schemas(root)
        while waiting:
            node = waiting.pop()
            if id(node) in self._parts:
                continue
            part = self._parts[id(node)] = SubschemaCost(node, self._document)
            self._nodes[id(node)] = node
            if len(self._parts) > SCHEMA_SUBSCHEMAS_MAX:
                raise _too_much(f"it has more than {SCHEMA_SUBSCHEMAS_MAX:,} subschemas")
            waiting += [one for one, _ in part.in_place]
            waiting += [one for listed in part.named.values() for one in listed] + part.members + part.elements

    def _following(self, node_id: int) -> list[int]:
        part = self._parts[node_id]
        inner = [one for listed in part.named.values() for one in listed] + part.members + part.elements
        return [id(one) for one, _ in part.in_place] + [id(one) for one in inner]

    def referred(self, members: frozenset[int]) -> int:
        """How many of these subschemas the others refer to."""
        found: set[int] = set()
        for node_id in members:
            node = self._nodes[node_id]
            targets = [target for _, target in self._document.targets(node)] + self._document.dynamic_targets(node)
            found.update(id(target) for target in targets if id(target) in members)
        return len(found)

    def reach(self, node_id: int) -> Reach:
        """Made when it is asked for. There are no circles of subschemas that look at the same value."""
        waiting = [] if node_id in self._reach else [node_id]
        while waiting:
            part = self._parts[waiting[-1]]
            missing = [id(one) for one, _ in part.in_place if id(one) not in self._reach]
            if missing:
                waiting += missing
            else:
                number = waiting.pop()
                if number not in self._reach:
                    self._reach[number] = self._made(self._nodes[number], part)
        return self._reach[node_id]

    def _made(self, node: Node, part: SubschemaCost) -> Reach:
        made = Reach(node)
        made.leaf, made.whole, made.text = part.leaf, part.whole, part.text
        for name, listed in part.named.items():
            self._add(made.named.setdefault(name, {}), {id(one): 1 for one in listed}, 1)
        self._add(made.members, _counts(part.members), 1)
        self._add(made.elements, _counts(part.elements), 1)
        for one, factor in part.in_place:
            other = self._reach[id(one)]
            made.leaf += factor * other.leaf
            made.whole += factor * other.whole
            made.text += factor * other.text
            if made.whole > SCHEMA_VALUE_STEPS_MAX:
                break
            for name, found in other.named.items():
                self._add(made.named.setdefault(name, {}), found, factor)
            self._add(made.members, other.members, factor)
            self._add(made.elements, other.elements, factor)
        if made.whole > SCHEMA_VALUE_STEPS_MAX:
            raise _too_much(f"a single value takes more than {SCHEMA_VALUE_STEPS_MAX:,} steps, counting references")
        return made

    def _add(self, to: dict[int, int], found: dict[int, int], factor: int) -> None:
        self._steps += 1 + len(found)
        if self._steps > SCHEMA_ANALYSIS_STEPS_MAX:
            raise _too_much("its combinations are too many")
        for node_id, times in found.items():
            to[node_id] = to.get(node_id, 0) + factor * times

    def reachable(self) -> list[Reach]:
        """All that values and their members meet, innermost first."""
        if self.start is None:
            return []
        found: dict[int, Reach] = {}
        waiting: list[tuple[Reach, Iterator[int]]] = []
        self._enter(self.start, found, waiting)
        order: list[Reach] = []
        while waiting:
            one, following = waiting[-1]
            step = next(following, None)
            if step is None:
                order.append(one)
                waiting.pop()
            elif step not in found:
                self._enter(self.reach(step), found, waiting)
        return order

    def _enter(self, one: Reach, found: dict[int, Reach], waiting: list[tuple[Reach, Iterator[int]]]) -> None:
        found[id(one.node)] = one
        steps = {step: None for named in one.named.values() for step in named} | one.members | one.elements
        waiting.append((one, iter(steps)))


def in_place(node: Node, document: JsonDocument) -> list[Node]:
    """The subschemas that look at the same value."""
    found: list[Any] = [target for _, target in document.targets(node)] + document.dynamic_targets(node)
    for keyword in _LISTS:
        listed = node.get(keyword)
        found += listed if isinstance(listed, list) else []
    found += [node.get(keyword) for keyword in _SINGLE]
    for keyword in _NAMED_IN_PLACE:
        found += _dict(node.get(keyword)).values()
    return [one for one in found if isinstance(one, dict)]


def _schemas(value: Any) -> list[Node]:
    return [value] if isinstance(value, dict) else []


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _counts(nodes: list[Node]) -> dict[int, int]:
    found: dict[int, int] = {}
    for node in nodes:
        found[id(node)] = found.get(id(node), 0) + 1
    return found


def _listed(node: Node) -> int:
    """Values to compare with. Plain ones are looked up at once, arrays and objects are tried one after the other."""
    listed = node.get("enum")
    values = [*(listed if isinstance(listed, list) else ()), node.get("const")]
    return sum(_EQUAL_STEPS * _size(value) for value in values if isinstance(value, list | dict))


def _size(value: Any) -> int:
    size, waiting = 0, [value]
    while waiting:
        one = waiting.pop()
        size += 1
        waiting += one if isinstance(one, list) else one.values() if isinstance(one, dict) else ()
    return size


def _counted(node: Node) -> int:
    """Names that an object is asked for."""
    required = node.get("required")
    names = len(required) if isinstance(required, list) else 0
    for keyword in ("dependentRequired", "dependencies"):
        names += sum(1 + (len(one) if isinstance(one, list) else 0) for one in _dict(node.get(keyword)).values())
    return names


def _too_much(why: str) -> InvalidSchema:
    return InvalidSchema(f"The schema takes too much work: {why}.", field="schema")
