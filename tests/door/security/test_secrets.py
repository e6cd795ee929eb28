"""Secrets of the operator: `security.key_file`, and what `ps` shows of a node and of commands."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import boto3
import click
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from bench.node_process import NodeProcess
from goqueue.base.clock import SystemClock
from goqueue.base.security_settings import SecuritySettings
from goqueue.base.settings import Settings
from goqueue.base.startup_errors import SettingsInvalid
from goqueue.cli import app
from goqueue.service.api_keys import signing_secret
from goqueue.sim.disk import SimDisk
from tests.door.security.secure import SecureNode, secure_settings
from tests.service.brokers import broker_alone

MASTER = "of the operator, and of nobody else: 0123456789"
SECRETS = ("cluster-secret-like-no-other", "admin password", MASTER)
# Options that take a word of these in their name, and what they take is none.
HARMLESS = {"--key", "--key-separator", "--key-format"}


def signs(node: NodeProcess, key_id: str, secret: str) -> str:
    """What SQS says."""
    config = Config(retries={"total_max_attempts": 1})
    known = {"aws_access_key_id": key_id, "aws_secret_access_key": secret, "region_name": "eu-central-1"}
    try:
        boto3.client("sqs", endpoint_url=node.sqs, config=config, **known).list_queues()
    except ClientError as error:
        return str(error.response["Error"]["Code"])
    return "ok"


def with_key_file(folder: Path, text: str) -> dict[str, str]:
    (folder / "master").write_text(text)
    return {**secure_settings(folder), "GOQUEUE_SECURITY_KEY_FILE": str(folder / "master")}


def test_who_reads_the_metadata_cannot_sign_where_there_is_a_key_file(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with NodeProcess(data, settings=with_key_file(tmp_path, MASTER)) as node, SecureNode(node) as secure:
        secure.user("sam")
        made = secure.key("sam", signs=True)
        assert signs(node, made["id"], made["secret"]) == "ok"
        stored = [path.read_bytes() for path in data.rglob("*") if path.is_file()]
        seeds = {seed.decode() for text in stored for seed in re.findall(rb"seed\W+([0-9a-f]{64})", text)}
        assert seeds, "it is there, and of no use"
        for seed in seeds:
            assert "Signature" in signs(node, made["id"], signing_secret(bytes.fromhex(seed), made["id"]))
        for secret in (MASTER, made["secret"]):
            assert not any(secret.encode() in text for text in stored)
        node.kill()
        node.start()
        assert signs(node, made["id"], made["secret"]) == "ok", "the same file makes the same keys"
        node.kill()
        with_key_file(tmp_path, "of another operator: 0123456789, 0123456789")
        node.start()
        assert "Signature" in signs(node, made["id"], made["secret"])


@pytest.mark.parametrize("text", [None, "", "short"])
def test_a_key_file_that_cannot_be_used_is_told_at_the_start(text: str | None, tmp_path: Path) -> None:
    file = tmp_path / "master"
    if text is not None:
        file.write_text(text)
    chosen = Settings(security=SecuritySettings(key_file=str(file)))
    with pytest.raises(SettingsInvalid, match=r"security\.key_file"):
        broker_alone(chosen, SimDisk(), SystemClock())


# --- ps ---------------------------------------------------------------------------------------------------------


def family(pid: int) -> Iterator[int]:
    """A process and all below it."""
    yield pid
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text().split():
            yield from family(int(child))


def test_ps_shows_no_secret_of_a_node(tmp_path: Path) -> None:
    settings = with_key_file(tmp_path, MASTER) | {
        "GOQUEUE_NODE_PROCESSES": "2",
        "GOQUEUE_CLUSTER_SECRET": SECRETS[0],
    }
    with NodeProcess(tmp_path / "data", settings=settings) as node:
        shown = [Path(f"/proc/{pid}/cmdline").read_text() for pid in family(node.pid)]
    assert len(shown) >= 2 and "serve" in shown[0]
    for secret in SECRETS:
        assert not [text for text in shown if secret in text]


def options(command: click.Command, path: str) -> Iterator[tuple[str, str]]:
    for one in command.params:
        if isinstance(one, click.Option) and not one.is_flag:
            yield from ((path, name) for name in one.opts)
    if isinstance(command, click.Group):
        for name in command.list_commands(click.Context(command)):
            found = command.get_command(click.Context(command), name)
            assert found is not None
            yield from options(found, f"{path} {name}")


def test_no_command_takes_a_secret_as_an_option() -> None:
    """They are read from files, prompts and the environment, which other users' `ps` does not show."""
    known = list(options(app, "goqueue"))
    assert ("goqueue user add", "--password-file") in known
    telling = re.compile("password|secret|token|credential|key")
    wrong = [one for one in known if telling.search(one[1]) and not one[1].endswith("-file")]
    assert [one for one in wrong if one[1] not in HARMLESS] == []
