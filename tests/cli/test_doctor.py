"""`goqueue doctor`: what it finds, and its exit code."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bench.node_process import NodeProcess
from goqueue.cli.doctor_checks import Finding, checked
from goqueue.cli.doctor_host import check_disk, check_file_system, check_metadata_store, file_system_of
from tests.cli.running import goqueue

MOUNTS = """\
22 1 8:1 / / rw - ext4 /dev/sda1 rw
30 22 0:40 / /mnt/share rw shared:5 - nfs4 server:/x rw
31 22 0:41 / /mnt/my\\040disk rw - vfat /dev/sdb1 rw
32 22 0:42 / /run rw - tmpfs tmpfs rw
"""


def told(*arguments: str, **options: Any) -> dict[str, dict[str, str]]:
    done = goqueue("doctor", "-o", "json", *arguments, **options)
    return {one["check"]: one for one in json.loads(done.stdout)}


def test_a_sound_machine_with_its_node(server: NodeProcess, server_url: str) -> None:
    found = told("--data", str(server.data_dir), server=server_url)
    assert found["store"]["detail"].startswith("a node runs on it; ")
    for check in ("settings", "version", "packages", "descriptors", "disk", "file system", "sync", "store", "broker"):
        assert found[check]["verdict"] in ("ok", "warning"), found[check]
    assert "accepting requests" in found["broker: running"]["detail"]
    shown = goqueue("doctor", "--data", str(server.data_dir), server=server_url)
    assert shown.stdout.startswith("VERDICT ") and "0 things wrong" in shown.stderr
    assert shown.exit_code == 0


def test_what_is_wrong_makes_the_exit_code(tmp_path: Path) -> None:
    assert goqueue("doctor").exit_code == 1, "no broker"
    assert "--offline asks none" in told()["broker"]["advice"]
    assert goqueue("doctor", "--offline").exit_code == 0
    missing = goqueue("doctor", "--offline", "--data", str(tmp_path / "nowhere"))
    assert missing.exit_code == 1 and "nowhere is not there" in missing.stdout
    (tmp_path / "bad.toml").write_text("[log]\nfsync = 'sometimes'\nnonsense = 1\n")
    bad = goqueue("doctor", "--offline", "--config", str(tmp_path / "bad.toml"))
    assert bad.exit_code == 1 and "log.fsync" in bad.stdout
    damaged = tmp_path / "data" / "logs" / "orders" / "0"
    damaged.mkdir(parents=True)
    (damaged / "00000000000000000000.log").touch()
    (damaged / "00000000000000000000.damage").touch()
    store = told("--offline", "--data", str(tmp_path / "data"))["store"]
    assert (
        store["verdict"] == "wrong"
        and "no node runs on it; 1 segment, 1 damaged place: logs/orders/0" in store["detail"]
    )
    assert [one.name for one in (tmp_path / "data").iterdir()] == ["logs"], "nothing is left behind"


def test_file_systems_by_the_longest_mount() -> None:
    assert file_system_of(Path("/var/lib/goqueue"), MOUNTS) == "ext4"
    assert file_system_of(Path("/mnt/share/data"), MOUNTS) == "nfs4"
    assert file_system_of(Path("/mnt/shared"), MOUNTS) == "ext4"
    assert file_system_of(Path("/mnt/my disk/x"), MOUNTS) == "vfat"
    assert file_system_of(Path("/x"), "nonsense") == "unknown"


def test_a_full_disk_and_a_store_out_of_reach(tmp_path: Path) -> None:
    assert next(one.verdict for one in check_disk(tmp_path, 0.0)) == "wrong"
    assert next(one.verdict for one in check_file_system(tmp_path)) in ("ok", "warning")
    found = list(check_metadata_store("etcd://127.0.0.1:1, nonsense"))
    assert [one.verdict for one in found] == ["wrong", "wrong"] and "Start etcd" in found[0].advice


def test_a_check_that_fails_is_a_finding() -> None:
    def broken() -> list[Finding]:
        raise PermissionError(13, "Permission denied")

    (one,) = checked("store", broken)
    assert (one.verdict, one.detail) == ("wrong", "Permission denied")


@pytest.mark.parametrize("flags", [["--nonsense"], ["-o", "xml"], ["extra"]])
def test_wrong_usage(flags: list[str]) -> None:
    assert goqueue("doctor", *flags).exit_code == 2
