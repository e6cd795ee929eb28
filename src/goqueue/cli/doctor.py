"""`goqueue doctor`: what is wrong with this machine, its settings, its data and its broker, and what to do."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

import click

from goqueue.cli.connecting import identity_for
from goqueue.cli.doctor_broker import check_broker
from goqueue.cli.doctor_checks import Finding, Verdict, checked
from goqueue.cli.doctor_host import (
    check_clock,
    check_descriptors,
    check_disk,
    check_file_system,
    check_metadata_store,
    check_settings,
    check_store,
    check_syncs,
    check_versions,
)
from goqueue.cli.options import output_option, server_option
from goqueue.cli.show import counted, remark, show_rows


@click.command()
@click.option("--data", type=click.Path(path_type=Path), metavar="DIR", help="Data directory; default from settings.")
@click.option("--config", type=click.Path(path_type=Path), metavar="FILE", help="Settings file (TOML).")
@click.option("--offline", is_flag=True, help="Look at this machine alone, and ask no broker.")
@click.option("--strict", is_flag=True, help="Warnings count as wrong.")
@server_option
@output_option
def doctor(data: Path | None, config: Path | None, offline: bool, strict: bool, server: str, output: str) -> None:
    """Look for what is wrong: settings, disk, clocks, versions, store, descriptors, file system.

    Exit code 1 if something is wrong. Nothing is changed; the disk is tried with a file that is gone afterwards.
    """
    found = _host(data, config)
    if not offline:
        found += checked("broker", partial(check_broker, identity_for(server)))
    rows = [(one.verdict, one.check, one.detail, one.advice or "-") for one in found]
    show_rows(output, found, ("VERDICT", "CHECK", "WHAT", "WHAT TO DO"), rows, (one.check for one in found))
    wrong, warnings = (sum(one.verdict == verdict for one in found) for verdict in ("wrong", "warning"))
    remark(f"{counted(wrong, 'thing')} wrong, {counted(warnings, 'warning')}.")
    raise click.exceptions.Exit(1 if wrong or (strict and warnings) else 0)


def _host(data: Path | None, config: Path | None) -> list[Finding]:
    settings, found = check_settings(config, os.environ)
    found += checked("version", check_versions)
    found += checked("descriptors", check_descriptors)
    found += checked("clock", check_clock)
    folder = data or (None if settings is None else Path(settings.data.dir))
    if folder is None or not folder.is_dir():
        verdict: Verdict = "skipped" if data is None else "wrong"
        detail = f"{folder} is not there" if folder else "the settings name none"
        found.append(Finding("data", verdict, detail, "Name the directory with --data." if data is None else ""))
    else:
        limit = 100.0 if settings is None else settings.log.disk_used_percent_max
        found += checked("disk", partial(check_disk, folder, limit))
        found += checked("file system", partial(check_file_system, folder))
        found += checked("sync", partial(check_syncs, folder))
        found += checked("store", partial(check_store, folder))
    if settings is not None and settings.cluster.store:
        found += checked("metadata store", partial(check_metadata_store, settings.cluster.store))
    return found
