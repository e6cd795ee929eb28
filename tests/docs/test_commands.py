"""Every command that a page names exists, with the options that the page gives it."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest

from goqueue.cli import app
from tests.docs.test_docs import PAGES, name_of

# In backticks within a line, or at the beginning of a line of a block.
NAMED = re.compile(r"(?:`|^)goqueue ((?:[^`\n\\|#;&<>]|\\\n)+)", re.MULTILINE)


def faults_of(words: list[str]) -> str:
    """What is wrong with these words after `goqueue`; empty if nothing is."""
    command: click.Command = app
    given: list[str] = []
    for word in words:
        below = command.get_command(click.Context(command), word) if isinstance(command, click.Group) else None
        if below is not None:
            command = below
        elif isinstance(command, click.Group) and not given and re.fullmatch(r"[a-z][a-z-]+", word):
            return f"there is no {word!r}"
        else:
            given.append(word)
    known = {name for option in command.params for name in (*option.opts, *option.secondary_opts)} | {"--help", "-h"}
    asked = [word.partition("=")[0].rstrip(",.") for word in given if re.match(r"--?[a-z]", word)]
    return ", ".join(f"{command.name} has no {word}" for word in asked if word not in known)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_commands_of_a_page_exist(page: Path) -> None:
    named = [found[1].replace("\\\n", " ") for found in NAMED.finditer(page.read_text())]
    wrong = {f"goqueue {text}": fault for text in named if (fault := faults_of(text.split()))}
    assert wrong == {}


@pytest.mark.parametrize("wrong", ["group reset billing", "topic create a --partition 3", "grope list"])
def test_a_command_that_does_not_exist_is_found(wrong: str) -> None:
    assert faults_of(wrong.split())
