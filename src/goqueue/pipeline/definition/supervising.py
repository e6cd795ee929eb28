"""`serve` put together: a folder of pipelines that run, tell their alerts, and have their tables looked after."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from goqueue.pipeline.definition.alerts import AlertRules, AlertSender
from goqueue.pipeline.definition.maintaining import Maintainer
from goqueue.pipeline.definition.reading import PipelineFile
from goqueue.pipeline.definition.serving import Begin, PipelineFolder, PipelineStatus, Say

NodeOf = Callable[[PipelineFile], Mapping[str, str]]
LakeOf = Callable[[PipelineFile], str]


class PipelineSupervisor:
    """Looked at again and again by its owner. Alerts and maintenance have threads of their own until `stop`."""

    def __init__(self, folder: Path, begin: Begin, node_of: NodeOf, lake_of: LakeOf, say: Say) -> None:
        self._kept = PipelineFolder(folder, begin, say)
        self._node_of, self._lake_of = node_of, lake_of
        self._rules, self._sender, self._maintainer = AlertRules(), AlertSender(say), Maintainer(say)
        self._status: list[PipelineStatus] = []

    def look(self, now: float, is_ending: Callable[[], bool] = lambda: False) -> None:
        self._kept.look(now, is_ending)
        files = self._kept.files()
        self._maintainer.look({name: (file, self._lake_of(file)) for name, file in files.items()})
        self._status = [self._with_tables(one) for one in self._kept.status()]
        self._tell()

    def status(self) -> list[PipelineStatus]:
        """As it was at the last look; any thread may ask."""
        return self._status

    def wind_down(self, has_time: Callable[[], bool]) -> None:
        """Each pipeline stops at the end of the batch that it is at, as long as there is time for that."""
        self._kept.wind_down(has_time)

    def stop(self) -> None:
        self._kept.stop()
        self._maintainer.stop()
        self._sender.stop()

    def _with_tables(self, status: PipelineStatus) -> PipelineStatus:
        files = self._maintainer.files(status.name)
        if files is None or not status.numbers:
            return status
        return msgspec.structs.replace(status, numbers={**status.numbers, "table_files": float(files)})

    def _tell(self) -> None:
        files = self._kept.all_files()
        for one in self._status:
            file = files.get(one.name)
            if file is None or file.definition.alerts is None:
                continue
            for alert in self._rules.look(one, file.definition.alerts, time.time_ns() // 10**6):
                self._sender.send(self._node_of(file), file.definition.alerts.topic, alert)
