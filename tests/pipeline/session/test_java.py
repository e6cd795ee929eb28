"""Which Java is taken, and what is said where there is none that Spark can use."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from goqueue.pipeline.session.java import Java, JavaMissing, JavaTooOld, find_java, major_of


def _java(home: Path, release: str | None = None, says: str = "") -> Path:
    """A Java that only knows its version."""
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho '{says}' >&2\n")
    program.chmod(0o755)
    if release is not None:
        (home / "release").write_text(f'IMPLEMENTOR="x"\nJAVA_VERSION="{release}"\n')
    return home


@pytest.mark.parametrize(
    ("told", "major"),
    [
        ('JAVA_VERSION="17.0.15"\n', 17),
        ('JAVA_VERSION="1.8.0_392"\n', 8),
        ('openjdk version "21" 2023-09-19\n', 21),
        ('java version "11.0.2" 2019-01-15 LTS\n', 11),
        ("no such thing", 0),
    ],
)
def test_the_major_version_is_read_from_what_java_tells(told: str, major: int) -> None:
    assert major_of(told) == major


def test_java_home_comes_first(tmp_path: Path) -> None:
    named = _java(tmp_path / "named", "21.0.4")
    _java(tmp_path / "jvm" / "java-17", "17.0.1")
    assert find_java({"JAVA_HOME": str(named)}, tmp_path / "jvm") == Java(named, 21)


def test_one_on_the_path_is_found_behind_its_link(tmp_path: Path) -> None:
    home = _java(tmp_path / "real", "17.0.15")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").symlink_to(home / "bin" / "java")
    assert find_java({"PATH": str(tmp_path / "bin")}, tmp_path / "nowhere") == Java(home, 17)


def test_one_in_the_usual_place_is_found_where_neither_variable_helps(tmp_path: Path) -> None:
    home = _java(tmp_path / "jvm" / "java-17-openjdk-amd64", "17.0.15")
    environ = {"JAVA_HOME": str(tmp_path / "gone"), "PATH": str(tmp_path)}
    assert find_java(environ, tmp_path / "jvm") == Java(home, 17)


def test_an_old_one_is_passed_over_for_a_newer(tmp_path: Path) -> None:
    old = _java(tmp_path / "old", "11.0.2")
    new = _java(tmp_path / "jvm" / "java-21", "21.0.1")
    assert find_java({"JAVA_HOME": str(old)}, tmp_path / "jvm") == Java(new, 21)


def test_one_without_a_release_file_is_asked(tmp_path: Path) -> None:
    home = _java(tmp_path / "java", says='openjdk version "17.0.9" 2023-10-17')
    assert find_java({"JAVA_HOME": str(home)}, tmp_path) == Java(home, 17)


def test_no_java_says_what_to_install_and_what_to_set(tmp_path: Path) -> None:
    with pytest.raises(JavaMissing, match=r"apt-get install openjdk-17-jre-headless.*JAVA_HOME"):
        find_java({"PATH": str(tmp_path)}, tmp_path)


def test_a_java_home_without_java_is_named(tmp_path: Path) -> None:
    with pytest.raises(JavaMissing, match="JAVA_HOME is /not/here, which has no bin/java"):
        find_java({"JAVA_HOME": "/not/here"}, tmp_path)


def test_only_old_ones_are_listed_with_what_to_do(tmp_path: Path) -> None:
    old = _java(tmp_path / "java-8", "1.8.0_392")
    with pytest.raises(JavaTooOld, match=r"java-8 \(8\)\. Install .*openjdk-17-jre-headless.*JAVA_HOME"):
        find_java({"JAVA_HOME": str(old)}, tmp_path / "nowhere")


def test_one_that_does_not_tell_its_version_does_not_count(tmp_path: Path) -> None:
    home = _java(tmp_path / "java", says="Error: could not find libjava.so")
    with pytest.raises(JavaTooOld, match="version unknown"):
        find_java({"JAVA_HOME": str(home)}, tmp_path / "nowhere")


def test_the_errors_pass_between_processes() -> None:
    assert str(pickle.loads(pickle.dumps(JavaMissing("none")))) == "none"
