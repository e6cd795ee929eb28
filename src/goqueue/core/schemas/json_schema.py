"""JSON Schema: documents with their references, and checking data with them.

Nothing is ever fetched: a `$ref` leads into the document or to a reference that was registered with it. Patterns run on
an engine whose time is linear in the text, so look-around and back-references are refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, NoReturn, TypeAlias
from urllib.parse import unquote, urldefrag, urljoin

import msgspec

from goqueue.base.limits import SCHEMA_REGEX_BYTES_MAX
from goqueue.core.schemas.errors import InvalidSchema, SchemaSupportMissing
from goqueue.core.schemas.json_cost import JsonCost, in_place
from goqueue.core.schemas.json_text import canonical_json, load_json
from goqueue.core.schemas.json_work import JsonWork
from goqueue.core.schemas.mismatch import Mismatch

Node: TypeAlias = dict[str, Any] | bool

_BASE: Final = "http://schemas.invalid/"  # where documents without an address of their own stand
_DRAFTS: Final = {
    "http://json-schema.org/draft-04/schema": 4,
    "http://json-schema.org/draft-06/schema": 6,
    "http://json-schema.org/draft-07/schema": 7,
    "https://json-schema.org/draft/2019-09/schema": 2019,
    "https://json-schema.org/draft/2020-12/schema": 2020,
}
_DEFAULT: Final = 7  # without `$schema`, as in Confluent's registry
REFS: Final = ("$ref", "$dynamicRef", "$recursiveRef")
_REFS_OF: Final = {"$dynamicRef": (2020,), "$recursiveRef": (2019,)}  # other drafts ignore them
_EXPLAINED_CHARS_MAX: Final = 20_000
_ADDRESS_CHARS_MAX: Final = 4_000
_DATA: Final = ("const", "enum", "default", "examples")  # what stands there is data, not schemas


class JsonDocument:
    """A parsed schema and the documents it refers to."""

    def __init__(self, text: str, references: Mapping[str, str]) -> None:
        self.root: Node = _checked_root(load_json(text))
        self.draft = _draft_of(self.root)
        self.text = text
        self.normal = self.canonical = canonical_json(self.root)
        self.base = _join(_BASE, str(self.root.get("$id", ""))) if isinstance(self.root, dict) else _BASE
        self._places: dict[str, tuple[Node, str, int]] = {}  # absolute address -> node, base, draft
        self._bases: dict[int, tuple[str, int]] = {}
        self._dynamic: dict[str, list[Node]] = {}  # by the name of a dynamic anchor
        self._others = {_join(self.base, name): _checked_root(load_json(one)) for name, one in references.items()}
        for uri, other in self._others.items():
            self._note(other, uri, _draft_of(other))
        self._note(self.root, self.base, self.draft)
        self._refuse_circles()

    # --- addresses -----------------------------------------------------------------------------------------

    def _note(self, root: Node, base: str, draft: int) -> None:
        self._places[urldefrag(base)[0]] = (root, base, draft)
        for node, at in _walk(root, base):
            self._bases[id(node)] = (at, draft)
            for anchor in (node.get("$anchor"), node.get("$dynamicAnchor"), _old_anchor(node)):
                if isinstance(anchor, str):
                    self._places[f"{urldefrag(at)[0]}#{anchor}"] = (node, at, draft)
            if isinstance(node.get("$dynamicAnchor"), str):
                self._dynamic.setdefault(node["$dynamicAnchor"], []).append(node)
            if node.get("$recursiveAnchor") is True:
                self._dynamic.setdefault("", []).append(node)
            if at != base:
                self._places.setdefault(urldefrag(at)[0], (node, at, draft))

    def same_references(self, other: JsonDocument) -> bool:
        return self._others == other._others

    def draft_of(self, node: dict[str, Any]) -> int:
        return self._bases.get(id(node), ("", self.draft))[1]

    def resolve(self, node: dict[str, Any], ref: str) -> Node | None:
        """What the text behind `$ref` means at that place; None if it leads nowhere."""
        base = self._bases.get(id(node), (self.base, 0))[0]
        uri = _join(base, ref)
        found = self._places.get(uri.removesuffix("#"))
        if found is not None:
            return found[0]
        address, fragment = urldefrag(uri)
        root = self._places.get(address)
        return None if root is None else _follow(root[0], fragment)

    def targets(self, node: dict[str, Any]) -> Iterator[tuple[str, Node | None]]:
        for keyword in REFS:
            ref = node.get(keyword)
            if isinstance(ref, str) and self.draft_of(node) in _REFS_OF.get(keyword, _DRAFTS.values()):
                yield ref, self.resolve(node, ref)

    def dynamic_targets(self, node: dict[str, Any]) -> list[Node]:
        """What `$dynamicRef` may mean beside its own target: which it is depends on the way that led there."""
        ref = node.get("$dynamicRef")
        found = self._dynamic.get(urldefrag(ref)[1], []) if isinstance(ref, str) else []
        return found + self._dynamic.get("", []) if "$recursiveRef" in node else found

    def _refuse_circles(self) -> None:
        """`a` is `b` is `a`: no value would ever be decided."""
        state: dict[int, int] = {}  # 1 while on the way, 2 when done
        for root in (self.root, *self._others.values()):
            for start, _ in _walk(root, ""):
                if not start.keys().isdisjoint(REFS):  # every circle has one
                    self._visit(start, state)

    def _visit(self, start: dict[str, Any], state: dict[int, int]) -> None:
        trail: list[tuple[dict[str, Any], Iterator[dict[str, Any]]]] = []
        if id(start) not in state:
            state[id(start)] = 1
            trail.append((start, iter(in_place(start, self))))
        while trail:
            node, following = trail[-1]
            step = next(following, None)
            if step is None:
                state[id(node)] = 2
                trail.pop()
            elif state.get(id(step)) == 1:
                raise InvalidSchema("A $ref leads back to itself without going into the data.", field="schema")
            elif id(step) not in state:
                state[id(step)] = 1
                trail.append((step, iter(in_place(step, self))))

    # --- checking ------------------------------------------------------------------------------------------

    def compile(self) -> JsonChecker:
        """Ready to check data; `InvalidSchema` if the document is not a schema of its draft, or takes too much work."""
        rs = _engine()
        self._check_draft(rs)
        work = JsonWork(JsonCost(self))
        try:
            registry = rs.Registry(list(self._others.items()), retriever=_never) if self._others else None
            validator = _kinds(rs)[self.draft](
                self.root,
                validate_formats=True,
                pattern_options=_patterns(rs),
                registry=registry,
                base_uri=self.base,
                offline=True,
            )
        except (rs.ValidationError, rs.ReferencingError, ValueError) as error:
            raise InvalidSchema(_told(error), field="schema") from None
        return JsonChecker(validator, work, rs)

    def _check_draft(self, rs: Any) -> None:
        """The engine's account of what is wrong copies the schema for every level: only small ones are explained."""
        address = next(uri for uri, draft in _DRAFTS.items() if draft == self.draft)
        for root in (self.root, *self._others.values()):
            if isinstance(root, dict) and len(self.canonical) > _EXPLAINED_CHARS_MAX:
                named = root if "$schema" in root else {"$schema": address, **root}
                if not rs.meta.is_valid(named):
                    raise InvalidSchema("The schema is not right: it is not one of its draft.", field="schema")


class JsonChecker:
    """Checks the bytes of messages."""

    def __init__(self, validator: Any, work: JsonWork, rs: Any) -> None:
        self._validator = validator
        self._is_valid = validator.is_valid
        self._error = rs.ValidationError
        self._work = work
        self._light_bytes = work.light_bytes

    def check(self, data: bytes) -> None:
        """Raises a `Mismatch`, or nothing."""
        try:
            value = msgspec.json.decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise Mismatch((), f"not JSON: {error}") from None
        except RecursionError:
            raise Mismatch((), "nested too deep") from None
        if len(data) > self._light_bytes:
            self._work.admit(data, value)
        try:
            if not self._is_valid(value):
                self._explain(value)
        except ValueError as error:  # the engine's own bound on nesting
            raise Mismatch((), str(error)) from None

    def _explain(self, value: Any) -> NoReturn:
        if self._work.can_explain(value):
            try:
                self._validator.validate(value)
            except self._error as error:
                raise Mismatch(error.instance_path, error.message) from None
        raise Mismatch((), "it does not fit; it is too large to say where")


class JsonPattern:
    """One regular expression on the linear engine."""

    def __init__(self, text: str) -> None:
        rs = _engine()
        self._validator = rs.Draft202012Validator({"pattern": text}, pattern_options=_patterns(rs), offline=True)

    def matches(self, text: str) -> bool:
        return bool(self._validator.is_valid(text))


def _engine() -> Any:
    try:
        import jsonschema_rs
    except ImportError:
        raise SchemaSupportMissing("JSON Schema needs a package: pip install 'goqueue[schemas]'.") from None
    return jsonschema_rs


def _kinds(rs: Any) -> dict[int, Any]:
    return {
        4: rs.Draft4Validator,
        6: rs.Draft6Validator,
        7: rs.Draft7Validator,
        2019: rs.Draft201909Validator,
        2020: rs.Draft202012Validator,
    }


def _patterns(rs: Any) -> Any:
    return rs.RegexOptions(size_limit=SCHEMA_REGEX_BYTES_MAX, dfa_size_limit=SCHEMA_REGEX_BYTES_MAX)


def _never(uri: str) -> Any:
    raise ValueError(f"{uri} is not fetched: register it and name it under references")


def _told(why: Exception) -> str:
    text = str(getattr(why, "message", "") or why).partition("\n\n")[0][:500]
    if 'is not a "regex"' in text:
        text += " that runs in linear time (no look-around, no back-references, bounded size)"
    if "is not present in a registry" in text:
        text = (
            text.partition(" and retrieving it failed")[0]
            + "; nothing is fetched: register it and name it under references"
        )
    if "Recursion limit" in text:
        text = "it is nested too deep"
    place = "".join(f"/{step}" for step in getattr(why, "instance_path", ()))
    return f"The schema is not right{f' at #{place}' if place else ''}: {text}."


def _checked_root(value: Any) -> Node:
    if not isinstance(value, dict | bool):
        raise InvalidSchema("A JSON Schema is an object, true or false.", field="schema")
    return value


def _draft_of(root: Node) -> int:
    named = root.get("$schema") if isinstance(root, dict) else None
    if named is None:
        return _DEFAULT
    draft = _DRAFTS.get(str(named).removesuffix("#"))
    if draft is None:
        known = ", ".join(sorted(_DRAFTS))
        raise InvalidSchema(f"$schema {str(named)[:200]!r} is unknown; known are {known}.", field="schema")
    return draft


def _join(base: str, ref: str) -> str:
    """The address that a reference means; names like `urn:a:b` have no parts to be relative to."""
    if len(base) + len(ref) > _ADDRESS_CHARS_MAX:
        raise InvalidSchema(f"An address of more than {_ADDRESS_CHARS_MAX:,} characters.", field="schema")
    return f"{urldefrag(base)[0]}{ref}" if ref.startswith("#") else urljoin(base, ref)


def _old_anchor(node: dict[str, Any]) -> str | None:
    """Before 2019-09 a name within the document was an `$id` that begins with `#`."""
    named = node.get("$id")
    return named[1:] if isinstance(named, str) and named.startswith("#") else None


def _walk(root: Any, base: str) -> Iterator[tuple[dict[str, Any], str]]:
    """Every object in the document with the base address that holds there, without recursion."""
    waiting: list[tuple[Any, str]] = [(root, base)]
    while waiting:
        value, at = waiting.pop()
        if isinstance(value, dict):
            named = value.get("$id")
            if isinstance(named, str) and not named.startswith("#"):
                at = _join(at, named)
            yield value, at
            waiting += [(one, at) for keyword, one in value.items() if keyword not in _DATA]
        elif isinstance(value, list):
            waiting += [(one, at) for one in value]


def _follow(root: Node, fragment: str) -> Node | None:
    value: Any = root
    for step in fragment.split("/")[1:] if fragment else ():
        name = unquote(step).replace("~1", "/").replace("~0", "~")
        if isinstance(value, dict) and name in value:
            value = value[name]
        elif isinstance(value, list) and name.isdecimal() and int(name) < len(value):
            value = value[int(name)]
        else:
            return None
    return value if isinstance(value, dict | bool) and (not fragment or fragment.startswith("/")) else None
