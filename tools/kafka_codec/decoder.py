"""Writes the function that decodes one layout of one message."""

from __future__ import annotations

from tools.kafka_codec.code import Code, default_text
from tools.kafka_codec.model import Field, Message, Struct


class Decoder(Code):
    def __init__(self, message: Message, version: int, constants: dict[str, str]) -> None:
        super().__init__(constants)
        self.message = message
        self.version = version
        self.flexible = version in message.flexible
        self.is_request = message.name.endswith("Request")

    def body(self) -> list[str]:
        self.add("end = len(buf)")
        made = self.struct(self.message.root)
        self.flush()
        # The C client leaves bytes behind some requests, and Kafka's own broker does not mind.
        with self.block("if at > end:" if self.is_request else "if at != end:"):
            self.add("raise wrong_end(at, end)")
        self.add(f"return {made}")
        return self.lines

    def struct(self, struct: Struct) -> str:
        """Reads the fields and answers with the call that makes the struct; the run may still be open."""
        values = [default_text(field) for field in struct.fields]
        tagged = []
        for index, field in enumerate(struct.fields):
            if self.version not in field.versions:
                continue
            if self.version in field.tagged:
                tagged.append(index)
            else:
                values[index] = self.field(field)
        if self.flexible:
            self.tags([(index, struct.fields[index]) for index in tagged], values)
        last = max((i for i, field in enumerate(struct.fields) if self.version in field.versions), default=-1)
        return f"{struct.name}({', '.join(values[: last + 1])})"

    def tags(self, fields: list[tuple[int, Field]], values: list[str]) -> None:
        count = self.fresh("tags")
        if not fields:
            self.fixed("B", count)
            self.flush()
            with self.block(f"if {count}:"):
                self.add(f"at = skip_tags(buf, at, {count})")
            return
        for index, field in fields:
            values[index] = name = self.fresh(field.name)
            self.add(f"{name}: {self.local_type(field)} = {default_text(field)}")
        self.uvarint(count)
        with self.block(f"if {count} * 2 > end - at or {count} > TAGS_MAX:"):
            self.add(f"raise wrong_count({count})")
        with self.block(f"for _ in range({count}):"):
            tag, stop = self.fresh("tag"), self.fresh("tag_end")
            self.uvarint(tag)
            self.uvarint(stop)
            self.add(f"{stop} += at")
            word = "if"
            for index, field in fields:
                with self.block(f"{word} {tag} == {field.tag}:"):
                    self.field(field, values[index])
                    self.flush()
                    with self.block(f"if at != {stop}:"):
                        self.add(f"raise wrong_tag({tag})")
                word = "elif"
            self.add(f"at = {stop}")

    def field(self, field: Field, name: str = "") -> str:
        """Reads one field into a variable, or for a plain struct answers with the call that makes it."""
        if field.array:
            return self.array(field, name or self.fresh(field.name))
        if field.is_struct:
            return self.inner(field, name)
        name = name or self.fresh(field.name)
        if field.fixed:
            self.fixed(field.fixed[0], name)
        else:
            self.text_or_bytes(field, name)
        return name

    def inner(self, field: Field, name: str) -> str:
        struct = self.message.structs[field.type]
        if self.version not in field.nullable:
            made = self.struct(struct)
            if name:
                self.flush()
                self.add(f"{name} = {made}")
            return name or made
        given = self.fresh("given")
        name = name or self.fresh(field.name)
        self.fixed("b", given)
        self.flush()
        self.add(f"{name}: {field.type} | None = None")
        with self.block(f"if {given} >= 0:"):
            made = self.struct(struct)
            self.flush()
            self.add(f"{name} = {made}")
        return name

    def text_or_bytes(self, field: Field, name: str) -> None:
        size = self.length("h" if field.type == "string" else "i")
        value = 'str(buf[at:stop], "utf-8")' if field.type == "string" else "buf[at:stop]"
        kind = "str" if field.type == "string" else "memoryview"
        if self.version in field.nullable:
            self.add(f"{name} = None" if name in self.declared() else f"{name}: {kind} | None = None")
            with self.block(f"if {size} {'> 0' if self.flexible else '>= 0'}:"):
                self.slice(size, name, value)
            if not self.flexible:
                with self.block(f"elif {size} != -1:"):
                    self.add(f'raise wrong_length("{field.name}", {size})')
            return
        with self.block(f"if {size} {'== 0' if self.flexible else '< 0'}:"):
            self.add(f'raise wrong_length("{field.name}", {size}{" - 1" if self.flexible else ""})')
        self.slice(size, name, value)

    def slice(self, size: str, name: str, value: str) -> None:
        self.add(f"stop = at + {size}{' - 1' if self.flexible else ''}")
        self.add(f"{name} = {value}")
        self.add("at = stop")

    def array(self, field: Field, name: str) -> str:
        size = self.length("i")
        if self.flexible:
            self.add(f"{size} -= 1")
        kind = self.local_type(field)
        smallest = self.smallest(field)
        too_many = f"{size} * {smallest} > end - at" if smallest > 1 else f"{size} > end - at"
        if self.version in field.nullable:
            if name not in self.declared():
                self.add(f"{name}: {kind}")
            with self.block(f"if {size} == -1:"):
                self.add(f"{name} = None")
            with self.block(f"elif {size} < 0 or {too_many}:"):
                self.add(f"raise wrong_count({size})")
            with self.block("else:"):
                self.elements(field, name, size, "")
        else:
            with self.block(f"if {size} < 0 or {too_many}:"):
                self.add(f"raise wrong_count({size})")
            self.elements(field, name, size, "" if name in self.declared() else f": {kind}")
        return name

    def declared(self) -> set[str]:
        return {line.strip().partition(":")[0] for line in self.lines if ": " in line}

    def elements(self, field: Field, name: str, size: str, kind: str) -> None:
        self.count(size)
        if field.fixed:
            letter, width = field.fixed
            self.add(f'{name}{kind} = list(unpack_from(f">{{{size}}}{letter}", buf, at))')
            self.add(f"at += {size}{f' * {width}' if width > 1 else ''}")
            return
        self.add(f"{name}{kind} = []")
        with self.block(f"for _ in range({size}):"):
            element = Field(**{**field.__dict__, "array": False, "nullable": type(field.nullable)(1, 0)})
            made = self.field(element, "" if field.is_struct else self.fresh("each"))
            self.flush()
            self.add(f"{name}.append({made})")

    def count(self, size: str) -> None:
        """Elements unfold to many times their bytes: a request may have so many in all, however nested."""
        if self.is_request:
            self.add(f"left -= {size}")
            with self.block("if left < 0:"):
                self.add("raise TooManyElements")

    def smallest(self, field: Field) -> int:
        """The fewest bytes one element of the array can take."""
        if field.fixed:
            return field.fixed[1]
        if not field.is_struct:
            return 1 if self.flexible else 2
        return self.smallest_struct(self.message.structs[field.type])

    def smallest_struct(self, struct: Struct) -> int:
        total = 1 if self.flexible else 0
        for field in struct.fields:
            if self.version not in field.versions or self.version in field.tagged:
                continue
            if field.array or field.type in ("bytes", "records"):
                total += 1 if self.flexible else 4
            elif field.is_struct and self.version in field.nullable:
                total += 1
            else:
                total += self.smallest(field)
        assert total > 0, struct.name
        return total

    def local_type(self, field: Field) -> str:
        kinds = {"string": "str", "bytes": "memoryview", "records": "memoryview", "uuid": "bytes", "bool": "bool"}
        kind = field.type if field.is_struct else kinds.get(field.type, "float" if field.type == "float64" else "int")
        if field.array:
            kind = f"list[{kind}]"
            if self.version in field.tagged:
                kind = kind.replace("list", "Sequence", 1)
        return f"{kind} | None" if self.version in field.nullable else kind

    def length(self, letter: str) -> str:
        size = self.fresh("size")
        if self.flexible:
            self.uvarint(size)
        else:
            self.fixed(letter, size)
            self.flush()
        return size

    def uvarint(self, name: str) -> None:
        self.fixed("B", name)
        self.flush()
        with self.block(f"if {name} > 127:"):
            self.add(f"{name}, at = long_uvarint(buf, at, {name})")

    def fixed(self, letter: str, name: str) -> None:
        self.run.append((letter, name))

    def flush(self) -> None:
        if not self.run:
            return
        if [each[0] for each in self.run] == ["B"]:
            self.add(f"{self.run.pop()[1]} = buf[at]")
            self.add("at += 1")
            return
        _, names, unpack, size = self.take_run("unpack")
        self.add(f"{names[0]} = {unpack}(buf, at)[0]" if len(names) == 1 else f"{', '.join(names)} = {unpack}(buf, at)")
        self.add(f"at += {size}")
