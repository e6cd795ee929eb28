"""Reads .proto text into Protobuf's own description of a file. Names of types stay as written; Protobuf resolves them.

Options that change the meaning of data are kept (`packed`, `default`, `json_name`, `map_entry`, `allow_alias`);
others, custom ones included, are read over.
"""

from __future__ import annotations

from typing import Any, Final

from goqueue.base.limits import SCHEMA_DEPTH_MAX
from goqueue.core.schemas.proto_tokens import Tokens

SCALARS: Final = (
    "double", "float", "int64", "uint64", "int32", "fixed64", "fixed32", "bool", "string", "bytes", "uint32",
    "sfixed32", "sfixed64", "sint32", "sint64",
)  # fmt: skip
_LABELS: Final = {"optional": 1, "required": 2, "repeated": 3}
_REPEATED: Final = 3
_EDITIONS: Final = ("2023", "2024")
_END: Final = 1 << 29  # field numbers stop before this
_ENUM_END: Final = (1 << 31) - 1


class ProtoParser:
    """One file."""

    def __init__(self, text: str, descriptors: Any) -> None:
        self._tokens = Tokens(text)
        self._pb = descriptors
        self._types = {name: getattr(descriptors.FieldDescriptorProto, f"TYPE_{name.upper()}") for name in SCALARS}
        self._depth = 0
        self.file = descriptors.FileDescriptorProto()

    def parse(self) -> Any:
        tokens = self._tokens
        while tokens.peek():
            word = tokens.next()
            if word in ("syntax", "edition"):
                self._syntax(word)
            elif word == "package":
                self.file.package = tokens.dotted()
                tokens.expect(";")
            elif word == "import":
                self._import()
            elif word == "message":
                self._message(self.file.message_type.add())
            elif word == "enum":
                self._enum(self.file.enum_type.add())
            elif word == "option":
                self._option(self.file)
            elif word in ("service", "extend"):
                self._read_over()
            elif word in ("export", "local") and tokens.peek() in ("message", "enum"):
                continue  # who may see a type does not matter for data
            elif word != ";":
                raise tokens.wrong(f"{word[:40]!r} is not expected here")
        return self.file

    def _syntax(self, word: str) -> None:
        tokens = self._tokens
        tokens.expect("=")
        named = tokens.text()
        tokens.expect(";")
        if word == "edition" and named in _EDITIONS:
            self.file.syntax, self.file.edition = "editions", int(named) - 2023 + self._pb.Edition.Value("EDITION_2023")
        elif word == "edition" or named not in ("proto2", "proto3"):
            raise tokens.wrong(f"the syntax must be proto2, proto3 or an edition of {', '.join(_EDITIONS)}")
        elif named == "proto3":
            self.file.syntax = "proto3"

    def _import(self) -> None:
        tokens = self._tokens
        is_public = tokens.take("public")
        if tokens.take("option"):  # known for its options alone, and those are read over
            tokens.text()
            tokens.expect(";")
            return
        if not is_public:
            tokens.take("weak")
        if is_public:
            self.file.public_dependency.append(len(self.file.dependency))
        self.file.dependency.append(tokens.text())
        tokens.expect(";")

    # --- messages ------------------------------------------------------------------------------------------

    def _message(self, message: Any) -> None:
        tokens = self._tokens
        self._depth += 1
        if self._depth > SCHEMA_DEPTH_MAX // 4:
            raise tokens.wrong("messages are nested too deep")
        message.name = tokens.name()
        tokens.expect("{")
        while not tokens.take("}"):
            self._member(message)
        self._depth -= 1
        _name_optionals(message)

    def _member(self, message: Any) -> None:
        tokens = self._tokens
        word = tokens.peek()
        is_statement = tokens.peek(1) not in ("=", ".") and tokens.peek(2) != "="
        if word == "message" and is_statement:
            tokens.next()
            self._message(message.nested_type.add())
        elif word == "enum" and is_statement:
            tokens.next()
            self._enum(message.enum_type.add())
        elif word == "oneof" and tokens.peek(2) == "{":
            self._oneof(message)
        elif word == "reserved" and is_statement:
            self._reserved(message, _END)
        elif word == "option":
            tokens.next()
            self._option(message)
        elif word == "extend" and tokens.peek(2) != "=":
            tokens.next()
            self._read_over()
        elif word in ("export", "local") and tokens.peek(1) in ("message", "enum") and tokens.peek(2) != "=":
            tokens.next()
        elif word == "extensions":
            self._extensions(message)
        elif word == ";":
            tokens.next()
        else:
            self._field(message)

    def _oneof(self, message: Any) -> None:
        tokens = self._tokens
        tokens.next()
        place = len(message.oneof_decl)
        message.oneof_decl.add().name = tokens.name()
        tokens.expect("{")
        while not tokens.take("}"):
            if tokens.take("option"):
                self._read_over()
            elif not tokens.take(";"):
                self._field(message, place)

    def _field(self, message: Any, oneof: int | None = None) -> None:
        tokens = self._tokens
        label = None
        if tokens.peek() in _LABELS and tokens.peek(1) != "=":
            label = _LABELS[tokens.next()]
            if label != _REPEATED and self.file.syntax == "editions":
                raise tokens.wrong("editions have no such label; use features.field_presence")
        if tokens.peek() == "group":
            raise tokens.wrong("groups are not supported; use a message")
        if tokens.peek() == "map" and tokens.peek(1) == "<":
            field = self._map(message)
        else:
            field = message.field.add()
            self._type(field, tokens.dotted())
            field.label = label or 1
        field.name = tokens.name()
        tokens.expect("=")
        field.number = tokens.whole()
        if oneof is not None:
            field.oneof_index = oneof
        elif label == 1 and self.file.syntax == "proto3":
            field.proto3_optional = True
        if field.type_name and field.type_name.startswith("\0"):
            _rename_entry(message, field)
        if tokens.take("["):
            self._field_options(field)
        tokens.expect(";")

    def _type(self, field: Any, name: str) -> None:
        if name in self._types:
            field.type = self._types[name]
        else:
            field.type_name = name

    def _map(self, message: Any) -> Any:
        """A map is a repeated message of key and value, named after its field."""
        tokens = self._tokens
        tokens.next()
        tokens.expect("<")
        entry = message.nested_type.add(name="\0")
        entry.options.map_entry = True
        for number, name in ((1, "key"), (2, "value")):
            one = entry.field.add(name=name, number=number, label=1)
            self._type(one, tokens.dotted())
            tokens.expect("," if number == 1 else ">")
        return message.field.add(label=3, type_name="\0")

    def _field_options(self, field: Any) -> None:
        tokens = self._tokens
        while True:
            name = self._option_name()
            tokens.expect("=")
            if name == "default":
                field.default_value = self._constant()
            elif name == "json_name":
                field.json_name = tokens.text()
            elif name.startswith("features."):
                self._feature(field, name)
            elif name == "packed":
                field.options.packed = self._constant() == "true"
            else:
                self._constant()
            if tokens.take("]"):
                return
            tokens.expect(",")

    # --- enums, reserved, the rest ---------------------------------------------------------------------------

    def _enum(self, enum: Any) -> None:
        tokens = self._tokens
        enum.name = tokens.name()
        tokens.expect("{")
        while not tokens.take("}"):
            if tokens.peek() == "option" and tokens.peek(1) != "=":
                tokens.next()
                if tokens.peek() == "features":
                    self._option(enum)
                elif self._read_over() == "allow_alias":
                    enum.options.allow_alias = True
            elif tokens.peek() == "reserved" and tokens.peek(1) != "=":
                self._reserved(enum, _ENUM_END)
            elif not tokens.take(";"):
                value = enum.value.add(name=tokens.name())
                tokens.expect("=")
                value.number = tokens.whole()
                if tokens.take("["):
                    self._skip_to("]")
                tokens.expect(";")

    def _reserved(self, owner: Any, end: int) -> None:
        tokens = self._tokens
        tokens.next()
        while True:
            if tokens.kind == "string":
                owner.reserved_name.append(tokens.text())
            elif tokens.kind == "word":
                owner.reserved_name.append(tokens.name())
            else:
                first = tokens.whole()
                last = first
                if tokens.take("to"):
                    last = (end if end == _ENUM_END else end - 1) if tokens.take("max") else tokens.whole()
                owner.reserved_range.add(start=first, end=last if end == _ENUM_END else last + 1)
            if tokens.take(";"):
                return
            tokens.expect(",")

    def _extensions(self, message: Any) -> None:
        tokens = self._tokens
        tokens.next()
        while True:
            first = last = tokens.whole()
            if tokens.take("to"):
                last = _END - 1 if tokens.take("max") else tokens.whole()
            message.extension_range.add(start=first, end=last + 1)
            if tokens.take("["):
                self._skip_to("]")
            if tokens.take(";"):
                return
            tokens.expect(",")

    def _option(self, owner: Any) -> None:
        """Of options only the features of editions count."""
        if self._tokens.peek() != "features":
            self._read_over()
            return
        name = self._option_name()
        self._tokens.expect("=")
        self._feature(owner, name)
        self._tokens.expect(";")

    def _feature(self, owner: Any, name: str) -> None:
        tokens, feature = self._tokens, name.partition(".")[2]
        known = self._pb.FeatureSet.DESCRIPTOR.fields_by_name.get(feature)
        value = self._constant()
        if known is None or known.enum_type is None:
            if "(" not in feature:  # a language's own
                raise tokens.wrong(f"{name[:80]} is no feature")
        elif value not in known.enum_type.values_by_name:
            raise tokens.wrong(f"{value[:80]} is no value of {name}")
        else:
            setattr(owner.options.features, feature, known.enum_type.values_by_name[value].number)

    def _option_name(self) -> str:
        tokens = self._tokens
        parts: list[str] = []
        while tokens.peek() not in ("=", ""):
            parts.append(tokens.next())
        return "".join(parts)

    def _constant(self) -> str:
        tokens = self._tokens
        if tokens.kind == "string":
            return tokens.text()
        if tokens.take("{"):
            self._skip_to("}")
            return ""
        sign = "-" if tokens.take("-") else ""
        tokens.take("+")
        return sign + (tokens.dotted() if tokens.kind == "word" else tokens.next())

    def _read_over(self) -> str:
        """A statement that means nothing for data: up to its `;` or its closing brace. Returns its first word."""
        tokens = self._tokens
        first = tokens.peek()
        while True:
            word = tokens.next()
            if word == ";":
                return first
            if word == "{":
                self._skip_to("}")
                if tokens.peek() != ";":
                    return first

    def _skip_to(self, closing: str) -> None:
        depth = 1
        opening = {"}": "{", "]": "["}[closing]
        while depth:
            word = self._tokens.next()
            depth += (word == opening) - (word == closing)


def _rename_entry(message: Any, field: Any) -> None:
    name = "".join(part[:1].upper() + part[1:] for part in field.name.split("_")) + "Entry"
    message.nested_type[-1].name = field.type_name = name


def _name_optionals(message: Any) -> None:
    """A field that is `optional` in proto3 has a oneof of its own; those come last."""
    for field in message.field:
        if field.proto3_optional:
            field.oneof_index = len(message.oneof_decl)
            message.oneof_decl.add().name = f"_{field.name}"
