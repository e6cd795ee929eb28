"""`goqueue schema` against a real node."""

from __future__ import annotations

import json
import uuid
from pathlib import Path

import pytest

from tests.cli.running import goqueue

NUMBER, INTEGER = '{"type": "number"}', '{"type": "integer"}'


@pytest.fixture
def subject(server_url: str, tmp_path: Path) -> str:
    """A subject with one version: a number."""
    name = f"s-{uuid.uuid4().hex[:8]}"
    file = tmp_path / "first.json"
    file.write_text(NUMBER)
    done = goqueue("schema", "register", name, str(file), server=server_url)
    assert done.exit_code == 0, done.stderr
    assert done.stdout.startswith(f"{name} version 1, id ")
    return name


def test_what_is_registered_is_listed_and_shown(server_url: str, subject: str) -> None:
    listed = goqueue("schema", "list", server=server_url)
    assert listed.stdout.splitlines()[0].split() == ["SUBJECT", "VERSION", "TYPE", "ID", "REFERENCES"]
    (row,) = [line.split() for line in listed.stdout.splitlines() if line.startswith(subject)]
    assert row[1:3] == ["1", "JSON"]
    assert goqueue("schema", "show", subject, server=server_url).stdout.strip() == NUMBER
    assert goqueue("schema", "show", "--id", row[3], server=server_url).stdout.strip() == NUMBER
    shown = json.loads(goqueue("schema", "show", subject, "--output", "json", server=server_url).stdout)
    assert (shown["subject"], shown["version"], shown["schemaType"]) == (subject, 1, "JSON")


def test_a_check_says_why_not_and_ends_with_one(server_url: str, subject: str) -> None:
    check = ["schema", "check", subject, "-", "--type", "json"]
    fine = goqueue(*check, server=server_url, stdin='{"type": ["number", "null"]}')
    assert (fine.exit_code, fine.stdout) == (0, "compatible\n")
    broken = goqueue(*check, "--version", "1", server=server_url, stdin=INTEGER)
    assert broken.exit_code == 1
    assert "TYPE_NARROWED at #: number is not accepted" in broken.stdout
    refused = goqueue("schema", "register", subject, "-", "--type", "JSON", server=server_url, stdin=INTEGER)
    assert refused.exit_code == 1 and "(schema-registry-409)" in refused.stderr


def test_two_versions_are_compared_both_ways(server_url: str, subject: str) -> None:
    goqueue("schema", "config", subject, "--set", "none", server=server_url)
    goqueue("schema", "register", subject, "-", "--type", "JSON", server=server_url, stdin=INTEGER)
    done = goqueue("schema", "diff", subject, "1", "2", server=server_url)
    assert done.exit_code == 0, done.stderr
    assert '-  "type": "number"' in done.stdout and '+  "type": "integer"' in done.stdout
    assert "backward: broken" in done.stdout and "forward: compatible" in done.stdout
    told = json.loads(goqueue("schema", "diff", subject, "1", "--output", "json", server=server_url).stdout)
    assert (told["old"], told["new"], told["forward"]) == (1, 2, [])
    assert told["backward"][0].startswith("TYPE_NARROWED at #")


def test_levels_and_modes_are_shown_and_changed(server_url: str, subject: str) -> None:
    before = goqueue("schema", "config", subject, server=server_url).stdout
    assert before.split() == ["compatibility", "BACKWARD", "mode", "READWRITE"]
    changed = goqueue("schema", "config", subject, "--set", "full", "--mode", "readonly", server=server_url)
    assert changed.stdout.split() == ["compatibility", "FULL", "mode", "READONLY"]
    goqueue("schema", "config", subject, "--mode", "readwrite", server=server_url)
    unset = goqueue("schema", "config", subject, "--unset", "--output", "json", server=server_url)
    assert json.loads(unset.stdout)["compatibility"] == "BACKWARD"
    assert "schemas" in goqueue("schema", "config", server=server_url).stdout


def test_references_are_given_by_name(server_url: str, subject: str, tmp_path: Path) -> None:
    file = tmp_path / "list.json"
    file.write_text('{"type": "array", "items": {"$ref": "n.json"}}')
    other = f"{subject}-list"
    done = goqueue("schema", "register", other, str(file), "--reference", f"n.json={subject}:1", server=server_url)
    assert done.exit_code == 0, done.stderr
    wrong = goqueue("schema", "register", other, str(file), "--reference", "n.json", server=server_url)
    assert wrong.exit_code == 2 and "NAME=SUBJECT:VERSION" in wrong.stderr
    same = goqueue("schema", "diff", other, "1", "1", server=server_url)
    assert same.stdout == "backward: compatible\nforward: compatible\n"


def test_wrong_usage_says_so(server_url: str) -> None:
    assert goqueue("schema", "show", server=server_url).exit_code == 2
    assert goqueue("schema", "register", "s", "-", server=server_url, stdin="{}").exit_code == 2
    gone = goqueue("schema", "show", "nobody", server=server_url)
    assert gone.exit_code == 1 and "(schema-registry-40401)" in gone.stderr


def test_versions_and_subjects_are_deleted_softly_and_for_ever(server_url: str, tmp_path: Path) -> None:
    subject = f"subject-{uuid.uuid4()}"
    for number, kind in enumerate(("object", "array")):
        (tmp_path / "one.json").write_text(f'{{"type": "{kind}"}}')
        goqueue("schema", "config", subject, "--set", "NONE", server=server_url)
        done = goqueue("schema", "register", subject, str(tmp_path / "one.json"), server=server_url)
        assert f"version {number + 1}" in done.stdout, done.stderr
    refused = goqueue("schema", "delete", subject, server=server_url)
    assert refused.exit_code == 2 and "add --yes" in refused.stderr
    early = goqueue("schema", "delete", subject, "--permanent", "--yes", server=server_url)
    assert early.exit_code == 1
    one = goqueue("schema", "delete", subject, "--version", "1", "--yes", server=server_url)
    assert one.stderr == f"Deleted {subject} version 1.\n"
    rest = goqueue("schema", "delete", subject, "-o", "json", server=server_url, answers="y\n")
    assert json.loads(rest.stdout) == {"subject": subject, "versions": [2]}
    assert goqueue("schema", "show", subject, server=server_url).exit_code == 1
    gone = goqueue("schema", "delete", subject, "--permanent", "--yes", server=server_url)
    assert gone.stderr == f"Deleted {subject} version 1, 2.\n"
    missing = goqueue("schema", "delete", subject, "--yes", server=server_url)
    assert missing.exit_code == 1 and "not found" in missing.stderr
