from __future__ import annotations

from pathlib import Path

import pytest

from goqueue.pipeline.analytics.rules import Rule, load_rules
from goqueue.pipeline.link.errors import PipelineError


def test_rules_in_json(tmp_path: Path) -> None:
    path = tmp_path / "rules.json"
    path.write_text('{"a": "1 = 1", "b": {"check": "2 = 2", "topics": ["orders"]}}')
    assert load_rules(str(path)) == [Rule("a", "1 = 1"), Rule("b", "2 = 2", ("orders",))]


def test_rules_in_sql(tmp_path: Path) -> None:
    path = tmp_path / "rules.sql"
    path.write_text("-- a\n1 = 1;\n\n-- b: orders, mails\n2 = 2\n  AND 3 = 3;\n")
    assert load_rules(str(path)) == [Rule("a", "1 = 1"), Rule("b", "2 = 2\n  AND 3 = 3", ("orders", "mails"))]


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("rules.json", "[]", "no JSON of rules"),
        ("rules.json", '{"a": {"chek": "1"}}', "no JSON of rules"),
        ("rules.sql", "1 = 1;\n", "has no name"),
    ],
)
def test_files_that_hold_no_rules(tmp_path: Path, name: str, text: str, told: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(PipelineError, match=told):
        load_rules(str(tmp_path / name))


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match="no file"):
        load_rules(str(tmp_path / "rules.json"))
