"""Writes the function that encodes one layout of one message."""

from __future__ import annotations

from tools.kafka_codec.code import Code, default_text
from tools.kafka_codec.model import Field, Message, Struct


class Encoder(Code):
    def __init__(self, message: Message, version: int, constants: dict[str, str]) -> None:
        super().__init__(constants)
        self.message = message
        self.version = version
        self.flexible = version in message.flexible
        self.out = "out"
        self.has_records = any(f.type == "records" for s in message.structs.values() for f in s.fields)

    def body(self) -> list[str]:
        if self.has_records:
            self.add("buffers: list[Buffer] = []")
        self.add("out = bytearray()")
        self.struct(self.message.root, "message")
        self.flush()
        if self.has_records:
            with self.block("if out:"):
                self.add("buffers.append(out)")
        self.add("return buffers" if self.has_records else "return [out]")
        return self.lines

    def struct(self, struct: Struct, holder: str) -> None:
        tagged = []
        for field in struct.fields:
            if self.version not in field.versions:
                continue
            if self.version in field.tagged:
                tagged.append(field)
            else:
                self.field(field, f"{holder}.{field.name}")
        if not self.flexible:
            return
        if tagged:
            self.tags(tagged, holder)
        else:
            self.fixed("x", "")

    def tags(self, fields: list[Field], holder: str) -> None:
        self.flush()
        tags, count = self.fresh("tags"), self.fresh("count")
        self.add(f"{tags} = bytearray()")
        self.add(f"{count} = 0")
        around = self.out
        for field in sorted(fields, key=lambda each: each.tag or 0):
            assert field.tag is not None
            assert field.nullable.empty or (field.default is None and not field.is_struct), field.name
            value = f"{holder}.{field.name}"
            with self.block(f"if {self.worth_sending(field, value)}:"):
                self.out = self.fresh("part")
                self.add(f"{self.out} = bytearray()")
                if field.fixed:
                    self.field(field, value)
                else:
                    self.present(field, value)
                self.flush()
                part, self.out = self.out, tags
                self.add(f"{tags} += uvarint({field.tag})")
                self.add(f"{tags} += uvarint(len({part}))")
                self.add(f"{tags} += {part}")
                self.add(f"{count} += 1")
        self.out = around
        self.add(f"{self.out}.append({count})")
        self.add(f"{self.out} += {tags}")

    def worth_sending(self, field: Field, value: str) -> str:
        if field.default is None and not field.nullable.empty:
            return f"{value} is not None"
        if field.type == "bool":
            return f"not {value}" if field.default else value
        return value if field.array else f"{value} != {default_text(field)}"

    def field(self, field: Field, value: str) -> None:
        if field.fixed and not field.array:
            self.fixed(field.fixed[0], value)
        elif field.nullable.empty:
            self.present(field, value)
        elif self.version in field.nullable:
            self.nullable(field, value)
        else:
            name = self.fresh(field.name)
            self.add(f"{name} = {value}")
            with self.block(f"if {name} is None:"):
                self.add(f'raise wrong_length("{field.name}", -1)')
            self.present(field, name)

    def nullable(self, field: Field, value: str) -> None:
        self.flush()
        name = self.fresh(field.name)
        self.add(f"{name} = {value}")
        with self.block(f"if {name} is None:"):
            self.add(f"{self.out} += {self.null(field)!r}".replace("'", '"'))
        with self.block("else:"):
            if field.is_struct and not field.array:
                self.add(f"{self.out}.append(1)")
            self.present(field, name)
            self.flush()

    def null(self, field: Field) -> bytes:
        if field.is_struct and not field.array:
            return b"\xff"
        if self.flexible:
            return b"\0"
        return b"\xff\xff" if field.type == "string" and not field.array else b"\xff\xff\xff\xff"

    def present(self, field: Field, value: str) -> None:
        if field.array:
            self.array(field, value)
        elif field.is_struct:
            self.struct(self.message.structs[field.type], value)
        elif field.type == "string":
            self.string(value)
        elif field.type == "bytes":
            self.length("i", f"len({value})")
            self.add(f"{self.out} += {value}")
        else:
            self.records(value)

    def string(self, value: str) -> None:
        data = self.fresh("data")
        self.add(f"{data} = {value}.encode()")
        self.length("h", f"len({data})")
        self.add(f"{self.out} += {data}")

    def records(self, value: str) -> None:
        assert self.out == "out"
        self.length("i", f"len({value})")
        with self.block(f"if {value}:"):
            self.add("buffers.append(out)")
            self.add(f"buffers.append({value})")
            self.add("out = bytearray()")

    def array(self, field: Field, value: str) -> None:
        self.length("i", f"len({value})")
        if field.fixed:
            self.add(f'{self.out} += pack(f">{{len({value})}}{field.fixed[0]}", *{value})')
            return
        item = self.fresh("item")
        with self.block(f"for {item} in {value}:"):
            if field.is_struct:
                self.struct(self.message.structs[field.type], item)
            else:
                self.string(item)
            self.flush()

    def length(self, letter: str, size: str) -> None:
        if not self.flexible:
            self.fixed(letter, size)
            self.flush()
            return
        self.flush()
        name = self.fresh("size")
        self.add(f"{name} = {size} + 1")
        self.add(f"{self.out} += SHORT[{name}] if {name} < 128 else uvarint({name})")

    def fixed(self, letter: str, value: str) -> None:
        self.run.append((letter, value))

    def flush(self) -> None:
        if not self.run:
            return
        if all(letter == "x" for letter, _ in self.run):
            self.add(f"{self.out}.append(0)" if len(self.run) == 1 else f"{self.out} += bytes({len(self.run)})")
            self.run = []
            return
        _, values, pack, _ = self.take_run("pack")
        self.add(f"{self.out} += {pack}({', '.join(value for value in values if value)})")
