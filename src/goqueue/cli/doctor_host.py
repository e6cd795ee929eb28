"""Checks of this machine and of a data directory: settings, disk, file system, descriptors, clock, packages, store."""

from __future__ import annotations

import ctypes
import fcntl
import os
import platform
import resource
import shutil
import socket
import tempfile
import time
from collections.abc import Iterator, Mapping
from importlib.metadata import PackageNotFoundError, requires, version
from itertools import islice
from pathlib import Path
from typing import Final

from goqueue import __version__
from goqueue.base.descriptors import share_out
from goqueue.base.settings import Settings, load_settings
from goqueue.base.startup_errors import SettingsInvalid, TooFewDescriptors
from goqueue.cli.doctor_checks import Finding
from goqueue.cli.show import counted, size_text
from goqueue.log.data_dir import LOCK_FILE

_REMOTE: Final = frozenset({"nfs", "nfs4", "cifs", "smb3", "9p", "fuse.sshfs", "fuse.s3fs", "ceph", "glusterfs"})
_VOLATILE: Final = frozenset({"tmpfs", "ramfs"})
_POOR: Final = frozenset({"vfat", "exfat", "msdos", "ntfs", "fuseblk"})
_CONNECTIONS_FEW: Final = 1_000
_SYNCS: Final = 20
_SYNC_S_MAX: Final = 3.0
_SYNC_MS_SLOW: Final = 50.0
_DAMAGE_SHOWN: Final = 5
_FILES_MAX: Final = 200_000
_TIME_ERROR: Final = 5  # what adjtimex says of a clock that nothing keeps right
_STORE_S: Final = 2.0


def check_settings(file: Path | None, environ: Mapping[str, str]) -> tuple[Settings | None, list[Finding]]:
    try:
        settings = load_settings(file, environ, {}, socket.gethostname())
    except SettingsInvalid as error:
        return None, [Finding("settings", "wrong", error.message, "docs/configuration.md has every setting.")]
    source = f"{file} and " if file else ""
    return settings, [Finding("settings", "ok", f"{source}GOQUEUE_* variables can be read")]


def check_versions() -> Iterator[Finding]:
    yield Finding("version", "ok", f"goqueue {__version__}, Python {platform.python_version()}")
    missing = []
    for line in requires("goqueue") or []:
        if "extra ==" in line:
            continue
        try:
            version(_name_of(line))
        except PackageNotFoundError:
            missing.append(_name_of(line))
    if missing:
        yield Finding("packages", "wrong", f"not installed: {', '.join(missing)}", "Install goqueue again.")
    else:
        yield Finding("packages", "ok", "all that goqueue needs is installed")


def _name_of(requirement: str) -> str:
    end = next((at for at, one in enumerate(requirement) if not (one.isalnum() or one in "-_.")), len(requirement))
    return requirement[:end]


def check_descriptors() -> Iterator[Finding]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    allowed = hard if hard != resource.RLIM_INFINITY else 1 << 20
    try:
        plan = share_out(allowed, 32)
    except TooFewDescriptors as error:
        yield Finding("descriptors", "wrong", error.message, "Raise the limit: ulimit -n, or LimitNOFILE of systemd.")
        return
    detail = f"{soft:,} open files, {allowed:,} at most: {plan.connections:,} connections of all doors together"
    if plan.connections < _CONNECTIONS_FEW:
        yield Finding("descriptors", "warning", detail, "Raise the limit: ulimit -n, or LimitNOFILE of systemd.")
    else:
        yield Finding("descriptors", "ok", detail)


def check_clock() -> Iterator[Finding]:
    """Whether something keeps the machine's clock right, as the kernel knows it."""
    try:
        state = ctypes.CDLL(None, use_errno=True).adjtimex(ctypes.create_string_buffer(512))
    except (OSError, AttributeError):
        state = -1
    if state == -1:
        yield Finding("clock", "skipped", "this system does not say whether its clock is kept right")
    elif state == _TIME_ERROR:
        advice = "Run chrony or systemd-timesyncd; leases, delays and retention go by the clock."
        yield Finding("clock", "warning", "nothing keeps this machine's clock right", advice)
    else:
        yield Finding("clock", "ok", "kept right by the system")


# --- the data directory ------------------------------------------------------------------------------------


def check_disk(data: Path, used_percent_max: float) -> Iterator[Finding]:
    usage = shutil.disk_usage(data)
    percent = 100 * usage.used / max(1, usage.used + usage.free)  # what is kept for root counts for nobody
    detail = f"{percent:.0f} % used, {size_text(usage.free)} free; writes stop at {used_percent_max:g} %"
    if percent >= used_percent_max:
        yield Finding("disk", "wrong", detail, "Free some space, or shorten retention.ms of topics.")
    elif percent >= used_percent_max - 10:
        yield Finding("disk", "warning", detail, "Free some space soon.")
    else:
        yield Finding("disk", "ok", detail)
    stats = os.statvfs(data)
    if stats.f_files and stats.f_favail < stats.f_files / 20:
        yield Finding("inodes", "warning", f"{stats.f_favail:,} of {stats.f_files:,} left", "Delete small files.")


def check_file_system(data: Path) -> Iterator[Finding]:
    kind = file_system_of(data.resolve(), Path("/proc/self/mountinfo").read_text("utf-8", "replace"))
    if kind in _REMOTE:
        advice = "Use a disk of this machine: locks and syncs of a network file system cannot be relied on."
        yield Finding("file system", "wrong", f"{kind}, over the network", advice)
    elif kind in _VOLATILE:
        yield Finding(
            "file system", "warning", f"{kind}: in memory, gone with a restart", "Use a disk for what counts."
        )
    elif kind in _POOR:
        yield Finding("file system", "warning", f"{kind}: no journal", "Use ext4 or xfs.")
    else:
        yield Finding("file system", "ok", kind)


def file_system_of(path: Path, mounts: str) -> str:
    """The type of the mount that holds the path: the longest that fits."""
    best, kind = "", "unknown"
    for line in mounts.splitlines():
        fields, _, rest = line.partition(" - ")
        parts = fields.split()
        if len(parts) < 5 or not rest:
            continue
        mount = parts[4].encode().decode("unicode_escape", "replace")
        if len(mount) >= len(best) and path.is_relative_to(mount):
            best, kind = mount, rest.split()[0]
    return kind


def check_syncs(data: Path) -> Iterator[Finding]:
    """How long a small write takes until it is safe."""
    took: list[float] = []
    began = time.monotonic()
    with tempfile.TemporaryFile(dir=data) as file:
        while len(took) < _SYNCS and time.monotonic() - began < _SYNC_S_MAX:
            file.write(b"x" * 4096)
            file.flush()
            before = time.perf_counter()
            os.fsync(file.fileno())
            took.append((time.perf_counter() - before) * 1000)
    took.sort()
    detail = f"{took[len(took) // 2]:.1f} ms for a sync, {took[-1]:.1f} ms at worst of {len(took)}"
    if took[len(took) // 2] > _SYNC_MS_SLOW:
        yield Finding("sync", "warning", detail, "The disk is slow or busy; every acknowledged write waits for it.")
    else:
        yield Finding("sync", "ok", detail)


def check_store(data: Path) -> Iterator[Finding]:
    """Who uses it, and what was found damaged."""
    state = "a node runs on it" if _is_held(data / LOCK_FILE) else "no node runs on it"
    logs = data / "logs"
    files = list(islice(logs.rglob("*"), _FILES_MAX)) if logs.is_dir() else []
    segments = sum(one.suffix == ".log" for one in files)
    damaged = [one for one in files if one.suffix == ".damage"]
    detail = f"{state}; {counted(segments, 'segment')}"
    if damaged:
        shown = ", ".join(str(one.relative_to(data)) for one in damaged[:_DAMAGE_SHOWN])
        advice = "`goqueue log dump DIRECTORY` shows what is lost; docs/runbook.md says what to do."
        yield Finding("store", "wrong", f"{detail}, {counted(len(damaged), 'damaged place')}: {shown}", advice)
    else:
        yield Finding("store", "ok", f"{detail}, none known to be damaged")


def _is_held(lock: Path) -> bool:
    if not lock.is_file():
        return False
    with lock.open("rb") as file:
        try:
            fcntl.flock(file.fileno(), fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return True
    return False


def check_metadata_store(addresses: str) -> Iterator[Finding]:
    """Whether the members of a cluster's store can be reached."""
    for address in (one.strip() for one in addresses.split(",")):
        host, _, port = address.rpartition("//")[2].rpartition(":")
        try:
            with socket.create_connection((host, int(port)), _STORE_S):
                yield Finding("metadata store", "ok", f"{address} can be reached")
        except (OSError, ValueError) as error:
            yield Finding("metadata store", "wrong", f"{address}: {error}", "Start etcd, or mend cluster.store.")
