"""The container image: the file's format on a small tree and, in the long form, the image itself at work."""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import httpx
import pytest

from tests.long import LONG
from tests.waiting import wait_until
from tools.image.__main__ import SETTINGS, build
from tools.image.oci import image_archive, layer
from tools.image.root import leave_out

TREE = Path(__file__).parents[2]


def small_tree(root: Path) -> Path:
    (root / "usr/bin").mkdir(parents=True)
    (root / "usr/bin/program").write_bytes(b"\x7fELF")
    (root / "usr/bin/program").chmod(0o755)
    (root / "usr/bin/alias").symlink_to("program")
    return root


def small_image(root: Path) -> bytes:
    return image_archive([layer(small_tree(root))], SETTINGS, "goqueue:1.2.3", "amd64")


def test_the_same_tree_gives_the_same_bytes(tmp_path: Path) -> None:
    first = small_image(tmp_path / "a")
    os.utime(small_tree(tmp_path / "b") / "usr/bin/program", (1, 1))
    shutil.rmtree(tmp_path / "b")
    assert small_image(tmp_path / "b") == first


def test_code_is_compiled_to_the_same_bytes_whoever_does_it(tmp_path: Path) -> None:
    made = []
    for seed in ("1", "2"):
        folder = tmp_path / seed
        folder.mkdir()
        (folder / "one.py").write_text("def f(x):\n    return x in {'a', 'b', 'c', 'd', 'e', 'f', 'g'}\n")
        code = "import sys; from pathlib import Path; from tools.image.root import compile_all; "
        command = [sys.executable, "-c", f"{code}compile_all(Path(sys.argv[1]), '/shown')", str(folder)]
        subprocess.run(command, env={**os.environ, "PYTHONHASHSEED": seed}, check=True, timeout=60, cwd=TREE)
        (compiled,) = folder.rglob("*.pyc")
        made.append(compiled.read_bytes())
    assert made[0] == made[1]


def test_lists_of_packages_name_only_what_is_there(tmp_path: Path) -> None:
    (tmp_path / "goqueue").mkdir()
    (tmp_path / "goqueue/node.py").touch()
    info = tmp_path / "goqueue-0.1.0.dist-info"
    info.mkdir()
    (info / "direct_url.json").write_text('{"url": "file:///somewhere"}')
    kept = ["goqueue/node.py,sha256=a,1\n", "goqueue-0.1.0.dist-info/RECORD,,\n"]
    gone = ["../../bin/goqueue,sha256=b,1\n", "goqueue-0.1.0.dist-info/direct_url.json,sha256=c,1\n"]
    (info / "RECORD").write_text("".join([*gone, *kept]))

    leave_out(tmp_path)

    assert (info / "RECORD").read_text() == "".join(kept)
    assert not (info / "direct_url.json").exists()


def test_every_part_is_named_by_its_digest_for_docker_and_for_others(tmp_path: Path) -> None:
    with tarfile.open(fileobj=io.BytesIO(small_image(tmp_path / "tree"))) as archive:
        files = {one.name: archive.extractfile(one) for one in archive if one.isfile()}
        content = {name: file.read() for name, file in files.items() if file is not None}
    for name, data in content.items():
        if name.startswith("blobs/"):
            assert hashlib.sha256(data).hexdigest() == name.rsplit("/", 1)[1]
    (named,) = json.loads(content["index.json"])["manifests"]
    manifest = json.loads(content["blobs/" + named["digest"].replace(":", "/")])
    (docker,) = json.loads(content["manifest.json"])
    assert docker["RepoTags"] == ["goqueue:1.2.3"]
    assert [docker["Config"], *docker["Layers"]] == [
        "blobs/" + one["digest"].replace(":", "/") for one in (manifest["config"], *manifest["layers"])
    ]
    config = json.loads(content[docker["Config"]])
    (packed,) = (content[name] for name in docker["Layers"])
    assert config["config"]["Entrypoint"] == ["/usr/local/bin/goqueue"]
    with tarfile.open(fileobj=io.BytesIO(packed), mode="r:gz") as tree:
        members = {one.name: one for one in tree}
    assert members["usr/bin/program"].mode == 0o755 and members["usr/bin/alias"].linkname == "program"
    assert {(one.uid, one.gid, one.mtime) for one in members.values()} == {(0, 0, 0)}


RUN = """
mount --bind {root} {root} && mount -o remount,bind,ro {root}
mount -t tmpfs tmpfs {root}/data -o mode=777 && mount -t tmpfs tmpfs {root}/tmp -o mode=1777
mount --bind /dev {root}/dev
set -- serve --rest 127.0.0.1:{port} --kafka 127.0.0.1:0 --sqs off --grpc off
exec chroot --userspec=54321:54321 {root} /usr/local/bin/goqueue "$@"
"""


def is_ready(url: str) -> bool:
    try:
        return httpx.get(f"{url}/readyz").status_code == 200
    except httpx.TransportError:
        return False


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.skipif(not LONG or os.geteuid() != 0, reason="builds an image: GOQUEUE_LONG_TESTS=1, as root")
def test_the_image_runs_as_any_user_with_a_root_that_nobody_can_write_to(tmp_path: Path) -> None:
    archive, root = tmp_path / "goqueue.tar", tmp_path / "root"
    build(archive, tmp_path / "roots")
    for part in ("debian", "goqueue"):
        shutil.copytree(tmp_path / "roots" / part, root, symlinks=True, dirs_exist_ok=True)
    size = sum(one.lstat().st_size for one in root.rglob("*") if one.is_file() and not one.is_symlink())
    assert size < 200e6
    assert not any((root / name).exists() for name in ("bin/sh", "usr/bin/sh", "usr/bin/dpkg"))
    running = subprocess.Popen(["unshare", "-m", "bash", "-c", RUN.format(root=root, port=18089)])
    try:
        wait_until(lambda: is_ready("http://127.0.0.1:18089"), "the node in the image", seconds=60)
        assert httpx.post("http://127.0.0.1:18089/topics", json={"name": "orders"}).status_code == 201
    finally:
        running.terminate()
        running.wait(30)
