"""An image as one file, for `docker load`, `podman load` and `ctr images import`. Equal input gives equal bytes."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

_LAYER: Final = "application/vnd.oci.image.layer.v1.tar+gzip"
_CONFIG: Final = "application/vnd.oci.image.config.v1+json"
_MANIFEST: Final = "application/vnd.oci.image.manifest.v1+json"
_INDEX: Final = "application/vnd.oci.image.index.v1+json"
_BORN: Final = "1970-01-01T00:00:00Z"

Json = Mapping[str, object]


class Layer(NamedTuple):
    packed: bytes
    unpacked_digest: str
    unpacked_bytes: int


def layer(root: Path) -> Layer:
    """A folder as a layer: sorted, owned by root, without times."""
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for path in sorted(root.rglob("*")):
            _add(archive, path, root)
    packed = gzip.compress(raw.getvalue(), compresslevel=9, mtime=0)
    return Layer(packed, digest(raw.getvalue()), len(raw.getvalue()))


def _add(archive: tarfile.TarFile, path: Path, root: Path) -> None:
    member = archive.gettarinfo(str(path), arcname=str(path.relative_to(root)))
    member.uid = member.gid = member.mtime = 0
    member.uname = member.gname = ""
    if member.isreg():
        with path.open("rb") as file:
            archive.addfile(member, file)
    else:
        archive.addfile(member)


def image_archive(layers: Sequence[Layer], settings: Json, tag: str, architecture: str) -> bytes:
    """The whole file: OCI's layout, and the manifest that older Docker versions look for."""
    config = _json(
        {
            "created": _BORN,
            "architecture": architecture,
            "os": "linux",
            "config": settings,
            "rootfs": {"type": "layers", "diff_ids": [one.unpacked_digest for one in layers]},
        }
    )
    manifest = _json(
        {
            "schemaVersion": 2,
            "mediaType": _MANIFEST,
            "config": _named(_CONFIG, config),
            "layers": [_named(_LAYER, one.packed) for one in layers],
        }
    )
    index = {"schemaVersion": 2, "mediaType": _INDEX, "manifests": [_tagged(manifest, tag)]}
    docker = [{"Config": _blob(config), "RepoTags": [tag], "Layers": [_blob(one.packed) for one in layers]}]
    files = {
        "oci-layout": b'{"imageLayoutVersion":"1.0.0"}',
        "index.json": _json(index),
        "manifest.json": _json(docker),
        **{_blob(data): data for data in (config, manifest, *(one.packed for one in layers))},
    }
    return _packed(files)


def _tagged(manifest: bytes, tag: str) -> Json:
    names = {
        "io.containerd.image.name": f"docker.io/library/{tag}",
        "org.opencontainers.image.ref.name": tag.split(":")[1],
    }
    return {**_named(_MANIFEST, manifest), "annotations": names}


def _packed(files: Mapping[str, bytes]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name in [*_folders(files), *files]:
            member = tarfile.TarInfo(name)
            if name not in files:
                member.type, member.mode = tarfile.DIRTYPE, 0o755
                archive.addfile(member)
            else:
                member.size = len(files[name])
                archive.addfile(member, io.BytesIO(files[name]))
    return out.getvalue()


def _folders(files: Mapping[str, bytes]) -> Iterator[str]:
    if any(name.startswith("blobs/") for name in files):
        yield "blobs"
        yield "blobs/sha256"


def _named(kind: str, data: bytes) -> Json:
    return {"mediaType": kind, "digest": digest(data), "size": len(data)}


def _blob(data: bytes) -> str:
    return "blobs/" + digest(data).replace(":", "/")


def digest(data: bytes) -> str:
    return "sha256:" + hashlib.sha256(data).hexdigest()


def _json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":"), sort_keys=True).encode()
