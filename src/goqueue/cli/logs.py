"""Structured log lines: for people on a terminal, JSON for everything else."""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final, TextIO

import msgspec

from goqueue.base.settings import LoggingSettings

_STANDARD: Final = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime", "taskName"}
_COLOURS: Final = {"WARNING": "\x1b[33m", "ERROR": "\x1b[31m", "CRITICAL": "\x1b[1;31m"}


def set_up_logs(
    settings: LoggingSettings, stream: TextIO = sys.stderr, fields: Mapping[str, object] | None = None
) -> None:
    """`fields` are in every line."""
    human = settings.format == "human" or (settings.format == "auto" and stream.isatty())
    handler = logging.StreamHandler(stream)
    handler.setFormatter(HumanFormatter(stream.isatty()) if human else JsonFormatter())
    if fields:
        handler.addFilter(lambda record: record.__dict__.update({**fields, **record.__dict__}) or True)
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(settings.level.upper())
    logging.getLogger("uvicorn").setLevel("WARNING")


def _fields(record: logging.LogRecord) -> dict[str, object]:
    return {name: value for name, value in record.__dict__.items() if name not in _STANDARD}


class JsonFormatter(logging.Formatter):
    """One object a line."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **_fields(record),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return msgspec.json.encode(line, enc_hook=str).decode()


class HumanFormatter(logging.Formatter):
    """Time, level, message, then what belongs to it."""

    def __init__(self, colours: bool) -> None:
        super().__init__()
        self._colours = colours

    def format(self, record: logging.LogRecord) -> str:
        moment = datetime.fromtimestamp(record.created).strftime("%H:%M:%S")
        fields = "".join(f"  {name}={value}" for name, value in _fields(record).items())
        line = f"{moment} {record.levelname:<8} {record.getMessage()}{fields}"
        if record.exc_info:
            line += "\n" + self.formatException(record.exc_info)
        colour = _COLOURS.get(record.levelname) if self._colours else None
        return f"{colour}{line}\x1b[0m" if colour else line
