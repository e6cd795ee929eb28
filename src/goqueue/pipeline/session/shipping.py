"""What executors need and a Spark cluster does not have: this package and the libraries it stands on, in one file.

    spark-submit --py-files goqueue-<hash>.zip --conf spark.executorEnv.PYTHONPATH=goqueue-<hash>.zip job.py

`session()` does the same for a master on other machines. The cluster's Python needs what Spark asks for by itself
(pyarrow, pandas), and must be of the same minor version and platform as the one that made the pack: it carries compiled
modules. Where that cannot be had, pack the whole environment (`venv-pack -o env.tar.gz`), ship it with
`--archives env.tar.gz#env` and set PYSPARK_PYTHON=./env/bin/python. The driver plans with the same name of a program,
so that this is for `--deploy-mode cluster`, or for a driver with an `./env` of its own.
"""

from __future__ import annotations

import hashlib
import re
import tempfile
import zipfile
from collections.abc import Iterator
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Final, TypeAlias

from goqueue.pipeline.session import unpacking
from goqueue.pipeline.session.spark_home import cache_dir

OWN: Final = ("goqueue", "pyspark_goqueue")
LIBRARIES: Final = ("aiokafka", "cramjam", "crc32c", "httpx", "mmh3", "msgspec")  # and what these need themselves
_BOOT: Final = "_goqueue_boot"
_ENTRY: Final = f"from {_BOOT} import become\n\nbecome(__name__)\n"
_EPOCH: Final = (1980, 1, 1, 0, 0, 0)  # equal content, equal archive

Content: TypeAlias = dict[str, bytes]


def py_files(directory: Path | None = None) -> Path:
    """The pack, made if there is none of this content yet; its name tells the content apart."""
    content = _content()
    pack = (directory or cache_dir()) / f"goqueue-{_fingerprint(content)}.zip"
    if not pack.exists():
        _write(content, pack)
    return pack


def carried_libraries() -> list[metadata.Distribution]:
    """The installed libraries that go into the pack, by name."""
    waiting, found = list(LIBRARIES), dict[str, metadata.Distribution]()
    while waiting:
        name = waiting.pop()
        if name not in found:
            found[name] = metadata.distribution(name)
            waiting += _needed_by(found[name])
    return [found[name] for name in sorted(found)]


def _needed_by(library: metadata.Distribution) -> Iterator[str]:
    for requirement in library.requires or ():
        named = re.match(r"[\w.-]+", requirement)
        assert named is not None
        # What a condition leaves out on this machine is not installed here either.
        if "extra ==" not in requirement and (";" not in requirement or _installed(named[0])):
            yield re.sub(r"[-_.]+", "-", named[0]).lower()


def _installed(name: str) -> bool:
    try:
        metadata.distribution(name)
    except metadata.PackageNotFoundError:
        return False
    return True


def _content() -> Content:
    content: Content = {}
    for name in OWN:
        content |= _package(name)
    for library in carried_libraries():
        content |= _library(library)
    entries = {f"{name}/__init__.py": _ENTRY.encode() for name in _names(content)}
    boot = {f"{_BOOT}.py": Path(unpacking.__file__).read_bytes()}
    return dict(sorted((content | entries | boot).items()))


def _names(content: Content) -> set[str]:
    """What can be imported: any of it may be the first that a worker asks for."""
    tops = {path.removeprefix(unpacking.INSIDE).partition("/")[0] for path in content}
    return {name for top in tops if (name := top.removesuffix(".py")).isidentifier()}


def _package(name: str) -> Content:
    spec = find_spec(name)
    assert spec is not None and spec.origin is not None
    root = Path(spec.origin).parent
    files = (path for path in root.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {f"{unpacking.INSIDE}{path.relative_to(root.parent).as_posix()}": path.read_bytes() for path in files}


def _library(library: metadata.Distribution) -> Content:
    """Its files but for scripts, which lie outside of the packages, and what Python compiles by itself."""
    files = (path for path in library.files or () if ".." not in path.parts and path.suffix != ".pyc")
    return {f"{unpacking.INSIDE}{path.as_posix()}": path.read_binary() for path in files}


def _fingerprint(content: Content) -> str:
    digest = hashlib.sha256()
    for name, data in content.items():
        digest.update(f"{name}\0{len(data)}\0".encode())
        digest.update(data)
    return digest.hexdigest()[:16]


def _write(content: Content, pack: Path) -> None:
    pack.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=pack.parent) as draft:
        made = Path(draft) / pack.name
        with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, data in content.items():
                archive.writestr(zipfile.ZipInfo(name, _EPOCH), data, zipfile.ZIP_DEFLATED)
        made.replace(pack)
