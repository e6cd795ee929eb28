"""`goqueue acl` against a real node."""

from __future__ import annotations

import json
import uuid

import pytest

from tests.cli.running import goqueue

pytestmark = pytest.mark.usefixtures("watched")


def test_rules_are_added_listed_explained_and_deleted(server_url: str) -> None:
    user, topic = f"u-{uuid.uuid4()}", f"t-{uuid.uuid4()}"
    made = goqueue("acl", "add", user, "read,alter-configs", f"topic:{topic}*", server=server_url)
    assert made.exit_code == 0 and "security.authorization is off" in made.stderr
    goqueue("acl", "add", user, "read", f"topic:{topic}-x", "--deny", "--host", "10.0.0.1", server=server_url)
    listed = json.loads(goqueue("acl", "list", "--user", user, "--output", "json", server=server_url).stdout)
    assert {(one["operation"], one["pattern"], one["permission"]) for one in listed["rules"]} == {
        ("read", "prefixed", "allow"),
        ("alter_configs", "prefixed", "allow"),
        ("read", "literal", "deny"),
    }
    shown = goqueue("acl", "list", "--resource", f"topic:{topic}-x", "--matching", server=server_url)
    assert shown.stdout.count(user) == 3 and f"topic:{topic}*" in shown.stdout
    asked = ("acl", "explain", user, "describe", f"topic:{topic}-x")
    allowed = goqueue(*asked, server=server_url)
    assert "allowed: a rule allows it" in allowed.stdout and f"allow User:{user} read topic:{topic}*" in allowed.stdout
    denied = goqueue("acl", "explain", user, "read", f"topic:{topic}-x", "--host", "10.0.0.1", server=server_url)
    assert "refused: a rule denies it" in denied.stdout and "rule: deny" in denied.stdout
    gone = goqueue("acl", "delete", user, "read,alter-configs", f"topic:{topic}*", server=server_url)
    assert "2 rules deleted" in gone.stderr
    assert "no rule allows it" in goqueue(*asked, server=server_url).stdout


def test_what_is_no_rule_is_wrong_usage(server_url: str) -> None:
    for wrong in (("a", "steal", "topic:t"), ("a", "read", "orders"), ("", "read", "topic:t")):
        assert goqueue("acl", "add", *wrong, server=server_url).exit_code == 2
    assert goqueue("acl", "list", "--resource", "orders", server=server_url).exit_code == 2
