"""The two folders that become the image's layers: what Debian gives, and what Python's packages give."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

# Debian 12: what Python and the compiled packages load. No shell, no package manager.
DEBIAN: Final = (
    *("base-files", "ca-certificates", "libbz2-1.0", "libc6", "libcrypt1", "libexpat1", "libffi8", "libgcc-s1"),
    *("liblzma5", "libpython3.11-minimal", "libpython3.11-stdlib", "libsqlite3-0", "libssl3", "libstdc++6", "libuuid1"),
    *("media-types", "netbase", "python3.11-minimal", "zlib1g"),
)
LOCKS: Final = ("node", "cluster", "grpc")
PACKAGES: Final = Path("usr/local/lib/python3.11/dist-packages")
UID: Final = 10001

_UNUSED: Final = (
    *("usr/share/doc", "usr/share/man", "usr/share/locale", "usr/share/lintian", "usr/share/bug", "usr/share/doc-base"),
    *("usr/share/binfmts", "usr/share/pixmaps", "usr/share/applications", "usr/lib/python3.11/lib2to3", "usr/sbin"),
    *("usr/lib/python3.11/idlelib", "usr/lib/python3.11/ensurepip", "usr/lib/python3.11/pydoc_data"),
)
_COMPILE: Final = """
import compileall, py_compile, sys
folder, shown = sys.argv[1:]
mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
compileall.compile_dir(folder, maxlevels=20, quiet=2, stripdir=folder, prependdir=shown, invalidation_mode=mode)
"""
_LAUNCHER: Final = "#!/usr/bin/python3.11 -P\nfrom goqueue.cli import main\n\nmain()\n"


class CannotBuild(Exception):
    pass


def debian_root(root: Path, downloads: Path) -> list[tuple[str, str]]:
    """Unpacks Debian's packages; returns their names and versions."""
    downloads.mkdir(parents=True, exist_ok=True)
    _run(["apt-get", "download", "-q", *DEBIAN], cwd=downloads)
    for archive in sorted(downloads.glob("*.deb")):
        _run(["dpkg-deb", "-x", str(archive), str(root)])
    for name in _UNUSED:
        shutil.rmtree(root / name, ignore_errors=True)
    _python_names(root)
    _certificates(root)
    _accounts(root)
    compile_all(root / "usr/lib/python3.11", "/usr/lib/python3.11")
    return sorted(_name_and_version(archive) for archive in downloads.glob("*.deb"))


def packages_root(root: Path, tree: Path, scratch: Path) -> None:
    """Installs the locked packages, hashes checked, and this tree as a wheel."""
    target = root / PACKAGES
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    into = ["--target", str(target), "--no-deps", "--no-compile", "--upgrade"]
    for lock in LOCKS:
        wheels = ["--only-binary", ":all:", "--require-hashes", "-r", str(tree / f"requirements-{lock}.lock")]
        _run([*pip, "install", *into, *wheels])
    _run([*pip, "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(scratch), str(tree)])
    (wheel,) = scratch.glob("goqueue-*.whl")
    _run([*pip, "install", *into, str(wheel)])
    leave_out(target)
    compile_all(target, f"/{PACKAGES}")
    program = root / "usr/local/bin/goqueue"
    program.parent.mkdir(parents=True)
    program.write_text(_LAUNCHER)
    program.chmod(0o755)


def leave_out(target: Path) -> None:
    """What a node never loads: programs of packages, their tests, Spark's entry point, build tools."""
    for found in [target / "bin", target / "pyspark_goqueue", *target.glob("hatchling*"), *target.glob("editables*")]:
        shutil.rmtree(found, ignore_errors=True)
    for found in sorted(target.rglob("tests")):
        shutil.rmtree(found, ignore_errors=True)
    for found in target.rglob("direct_url.json"):  # names a folder of the machine that built it
        found.unlink()
    for found in target.glob("*.dist-info/RECORD"):  # digests of what is gone would still tell machines apart
        lines = found.read_text().splitlines(keepends=True)
        found.write_text("".join(line for line in lines if (target / line.partition(",")[0]).exists()))


def _python_names(root: Path) -> None:
    for name in ("python3", "python"):
        (root / "usr/bin" / name).symlink_to("python3.11")


def _certificates(root: Path) -> None:
    """One file of all authorities, as the package's own script would make it."""
    parts = [one.read_text() for one in sorted((root / "usr/share/ca-certificates").rglob("*.crt"))]
    (root / "etc/ssl/certs").mkdir(parents=True, exist_ok=True)
    (root / "etc/ssl/certs/ca-certificates.crt").write_text("".join(parts))


def _accounts(root: Path) -> None:
    etc = root / "etc"
    etc.mkdir(exist_ok=True)
    (etc / "passwd").write_text(f"root:x:0:0:root:/:/nonexistent\ngoqueue:x:{UID}:{UID}::/data:/nonexistent\n")
    (etc / "group").write_text(f"root:x:0:\ngoqueue:x:{UID}:\n")
    (etc / "nsswitch.conf").write_text("passwd: files\ngroup: files\nhosts: files dns\n")
    for name, mode in (("data", 0o777), ("tmp", 0o1777)):  # any user id may run the image
        (root / name).mkdir(exist_ok=True)
        (root / name).chmod(mode)


def compile_all(folder: Path, shown: str) -> None:
    """Compiled once, for a root that nobody can write to; checked by content, so that times do not matter. In a process
    of its own: the order of constant sets is the hash seed's."""
    _run([sys.executable, "-c", _COMPILE, str(folder), shown])


def _name_and_version(archive: Path) -> tuple[str, str]:
    name, version = archive.name.split("_")[:2]
    return name, version.replace("%3a", ":")


def _run(command: Sequence[str], cwd: Path | None = None) -> None:
    try:
        ended = subprocess.run(command, cwd=cwd, capture_output=True, text=True, env=_environment(), timeout=900)
    except FileNotFoundError as missing:
        raise CannotBuild(
            f"{command[0]} is not installed; the image is built on Debian 12 with apt and dpkg"
        ) from missing
    if ended.returncode != 0:
        raise CannotBuild(f"{' '.join(command[:4])} ...: {ended.stderr.strip()[-2000:]}")


def _environment() -> dict[str, str]:
    return {
        **os.environ,
        "PYTHONHASHSEED": "0",
        "SOURCE_DATE_EPOCH": os.environ.get("SOURCE_DATE_EPOCH", "0"),
        "LC_ALL": "C",
    }
