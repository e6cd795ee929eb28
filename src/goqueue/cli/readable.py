"""Messages as people read them: JSON laid out, Avro and Protobuf by the registry, other bytes as a hex dump."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from goqueue.cli.decoding import RegistryDecoded, ValueDecoder
from goqueue.cli.show import bytes_text, time_text
from goqueue.client import Message
from goqueue.client.messages import received_members

_HEX_BYTES_MAX = 64 * 1024


def hex_dump(data: bytes) -> str:
    """Sixteen bytes a line: where, as numbers, as text. What is beyond 64 KiB is counted, not shown."""
    return "\n".join(_hex_lines(data))


def _hex_lines(data: bytes) -> Iterator[str]:
    for place in range(0, min(len(data), _HEX_BYTES_MAX), 16):
        line = data[place : place + 16]
        numbers = " ".join(f"{byte:02x}" for byte in line)
        text = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in line)
        yield f"{place:08x}  {numbers:<47}  {text}"
    if len(data) > _HEX_BYTES_MAX:
        yield f"… and {len(data) - _HEX_BYTES_MAX:,} bytes more"


def readable_value(data: bytes | None, decoded: RegistryDecoded | None = None) -> str:
    """The best form there is."""
    if decoded is not None:
        return _laid_out(msgspec.json.encode(decoded.data))
    if data is None:
        return "null (tombstone)"
    try:
        found = msgspec.json.decode(data)
        if isinstance(found, dict | list):
            return _laid_out(data)
    except (msgspec.DecodeError, RecursionError):
        pass
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return hex_dump(data)
    shown = text.replace("\n", "").replace("\t", "")
    return text if shown.isprintable() else hex_dump(data)


def _laid_out(data: bytes) -> str:
    return msgspec.json.format(data, indent=2).decode()


class ReadableForms:
    """The forms that ask the registry."""

    def __init__(self, decoder: ValueDecoder) -> None:
        self._decoder = decoder

    def pretty(self, message: Message) -> bytes:
        decoded = self._decoder.decode(message)
        by = f"  {decoded.schema}" if decoded else ""
        lines = [f"{_head(message)}  {message.priority}{by}"]
        if message.key is not None:
            lines.append(f"key: {bytes_text(message.key)}")
        lines += [f"{bytes_text(name.encode())}: {bytes_text(value)}" for name, value in message.headers]
        return "\n".join([*lines, readable_value(message.value, decoded)]).encode()

    def decoded_json(self, message: Message) -> bytes:
        """As REST has it, and `decoded` beside."""
        members = received_members(message)
        decoded = self._decoder.decode(message)
        return msgspec.json.encode(members | ({} if decoded is None else {"decoded": decoded.data}))


def _head(message: Message) -> str:
    return f"── {message.topic}/{message.partition}/{message.offset}  {time_text(message.timestamp)}"


def hex_form(message: Message) -> bytes:
    parts = [_head(message)] + ([] if message.key is None else ["key", hex_dump(message.key)])
    return "\n".join([*parts, "value", "null" if message.value is None else hex_dump(message.value)]).encode()
