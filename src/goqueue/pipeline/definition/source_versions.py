"""What tables and files of a pipeline's sources were when it started. A running stream reads them as they were then."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from goqueue.pipeline.definition.reading import PipelineFile
from goqueue.pipeline.definition.words import PipelineSource
from goqueue.pipeline.lake.either import FoundTable, exists

_LOOK_S: Final = 10.0
_AGAIN_S: Final = 60.0  # a table that always changes starts its readers anew so often, and no more


class SourceVersions:
    """The time is an argument."""

    def __init__(self, file: PipelineFile, lake: str, now: float) -> None:
        self._file, self._lake = file, lake
        self._seen = {one.name: self._version(one) for one in file.definition.source}
        self._not_before = now + _AGAIN_S

    def changed(self, now: float) -> str | None:
        """The name of a source that is another now, if there is one; asked of the lake now and then."""
        if now < self._not_before:
            return None
        self._not_before = now + _LOOK_S
        sources = self._file.definition.source
        return next((one.name for one in sources if self._version(one) != self._seen[one.name]), None)

    def _version(self, source: PipelineSource) -> str:
        if source.table is not None and source.as_of is None:
            path = f"{self._lake}/{source.table}"
            return FoundTable(path).version() if exists(path) else ""
        if source.file is None or "://" in source.file:
            return ""
        path_of_file = Path(self._file.place(source.file))
        if not path_of_file.is_file():
            return ""
        found = path_of_file.stat()
        return f"{found.st_mtime_ns} {found.st_size}"
