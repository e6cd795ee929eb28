"""The settings of every session, and why each is there. What the caller sets wins."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Final

_VFORK: Final = "-Djdk.lang.Process.launchMechanism=VFORK"
_VFORK_UNTIL: Final = 24  # from here on Java raises for it, and starts processes cheaply by itself
_JVM_OPTIONS: Final = ("spark.driver.extraJavaOptions", "spark.executor.extraJavaOptions")

ALWAYS: Final = {
    # One meaning of a time on every machine.
    "spark.sql.session.timeZone": "UTC",
    # A batch without data costs as much as one with; windows close with the next data.
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    # Without a checksum file beside each file; checkpoints on local disks cost half.
    "spark.hadoop.fs.AbstractFileSystem.file.impl": "org.apache.hadoop.fs.local.RawLocalFs",
    # Lets the connector's option `pushFilters` work; sources without filters do not notice.
    "spark.sql.python.filterPushdown.enabled": "true",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.ui.showConsoleProgress": "false",
}


def settings_for(master: str | None, ui: bool, own: Mapping[str, str], java: int | None = None) -> dict[str, str]:
    """Everything to set for that master and major version of Java (None: another one chose it)."""
    cores = local_cores(master) if master else None
    here = {} if cores is None else {"spark.sql.shuffle.partitions": str(cores)}
    named = {} if master is None else {"spark.master": master}
    shown = {"spark.ui.enabled": str(ui).lower()}
    return {**ALWAYS, **here, **named, **shown, **own, **_jvm_options(own, java)}


def _jvm_options(own: Mapping[str, str], java: int | None) -> dict[str, str]:
    """Workers start without a copy of the JVM's page tables."""
    if java is None or java >= _VFORK_UNTIL:
        return {}
    return {name: f"{_VFORK} {own.get(name, '')}".strip() for name in _JVM_OPTIONS}


def local_cores(master: str) -> int | None:
    """How many tasks run at once on this machine; None for a master elsewhere."""
    if master == "local":
        return 1
    if found := re.fullmatch(r"local\[\s*(\*|\d+)\s*(?:,\s*\d+\s*)?\]", master):
        return len(os.sched_getaffinity(0)) if found[1] == "*" else int(found[1])
    if found := re.fullmatch(r"local-cluster\[\s*(\d+)\s*,\s*(\d+)\s*,\s*\d+\s*\]", master):
        return int(found[1]) * int(found[2])
    return None
