"""What a session is set to."""

from __future__ import annotations

import os

import pytest

from goqueue.pipeline.session.settings import local_cores, settings_for


@pytest.mark.parametrize(
    ("master", "cores"),
    [
        ("local", 1),
        ("local[3]", 3),
        ("local[2,4]", 2),
        ("local[ 2 , 4 ]", 2),
        ("local-cluster[2,3,1024]", 6),
        ("spark://host:7077", None),
        ("k8s://https://host:443", None),
        ("yarn", None),
    ],
)
def test_a_local_master_is_told_from_one_elsewhere(master: str, cores: int | None) -> None:
    assert local_cores(master) == cores


def test_a_star_means_the_cores_this_process_may_use() -> None:
    assert local_cores("local[*]") == len(os.sched_getaffinity(0))


def test_a_local_session_has_few_shuffle_partitions_and_no_ui() -> None:
    chosen = settings_for("local[2]", False, {})
    assert chosen["spark.master"] == "local[2]"
    assert chosen["spark.sql.shuffle.partitions"] == "2"
    assert chosen["spark.ui.enabled"] == "false"
    assert chosen["spark.sql.session.timeZone"] == "UTC"
    assert chosen["spark.sql.streaming.noDataMicroBatches.enabled"] == "false"
    assert chosen["spark.hadoop.fs.AbstractFileSystem.file.impl"].endswith("RawLocalFs")


def test_a_cluster_keeps_its_own_shuffle_partitions() -> None:
    assert "spark.sql.shuffle.partitions" not in settings_for("spark://host:7077", True, {})


def test_a_master_that_another_chose_is_not_set() -> None:
    assert "spark.master" not in settings_for(None, False, {})


def test_the_callers_settings_win() -> None:
    own = {"spark.sql.session.timeZone": "Europe/Zurich", "spark.ui.enabled": "true"}
    assert settings_for("local", False, own).items() >= own.items()


def test_the_callers_java_options_are_added_to_ours() -> None:
    chosen = settings_for("local", False, {"spark.driver.extraJavaOptions": "-Xss8m"}, 17)
    assert chosen["spark.driver.extraJavaOptions"] == "-Djdk.lang.Process.launchMechanism=VFORK -Xss8m"
    assert chosen["spark.executor.extraJavaOptions"] == "-Djdk.lang.Process.launchMechanism=VFORK"


@pytest.mark.parametrize("java", [None, 25])
def test_a_java_that_would_complain_or_is_not_ours_starts_processes_its_own_way(java: int | None) -> None:
    own = {"spark.driver.extraJavaOptions": "-Xss8m"}
    assert settings_for("local", False, own, java)["spark.driver.extraJavaOptions"] == "-Xss8m"
