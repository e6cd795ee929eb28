"""`goqueue schema`: list, show, register, check, diff, delete, config."""

from __future__ import annotations

import difflib
import json
from pathlib import Path
from typing import Final

import click

from goqueue.cli.asking import confirm, yes_option
from goqueue.cli.connecting import connect
from goqueue.cli.failures import Failed
from goqueue.cli.live_names import SUBJECT
from goqueue.cli.options import CommandGroup, F, output_option, server_option, view_options
from goqueue.cli.schema_texts import referred_schemas, whole_schema
from goqueue.cli.show import remark, render, show_facts, show_rows, tell
from goqueue.client import Client
from goqueue.client.schemas import (
    NewSchema,
    RegisteredSchema,
    SchemaReference,
    check_schema,
    compatibility,
    delete_schema,
    register_schema,
    registry_mode,
    registry_stats,
    schema_by_id,
    schemas,
    set_compatibility,
    set_registry_mode,
    unset_compatibility,
)
from goqueue.client.schemas import schema as schema_of
from goqueue.core.schemas.kinds import compare, parse
from goqueue.core.schemas.model import LEVELS, MODES

_LEVEL: Final = f"The compatibility level: {', '.join(LEVELS)}."
_MODE: Final = f"What may be written: {', '.join(MODES)}."
_TYPES: Final = {".avsc": "AVRO", ".json": "JSON", ".proto": "PROTOBUF"}
_KINDS: Final = ("AVRO", "JSON", "PROTOBUF")


@click.group(cls=CommandGroup)
def schema() -> None:
    """List, show, register, compare and delete schemas."""


@schema.command("list")
@click.option("--all", "every", is_flag=True, help="All versions, not the latest alone.")
@click.option("--deleted", is_flag=True, help="Also what is deleted softly.")
@view_options
def list_(every: bool, deleted: bool, server: str, output: str) -> None:
    """List subjects with their latest version."""
    with connect(server) as client:
        found = client.perform(schemas(latest_only=not every, deleted=deleted))
    rows = [(one.subject, one.version or 0, one.schema_type, one.id or 0, len(one.references)) for one in found]
    show_rows(output, found, ("SUBJECT", "VERSION", "TYPE", "ID", "REFERENCES"), rows)


@schema.command()
@click.argument("subject", type=SUBJECT, required=False)
@click.option("--version", metavar="N", default="latest", show_default=True, help="Which version.")
@click.option("--id", "schema_id", type=click.IntRange(1), metavar="ID", help="By id instead.")
@view_options
def show(subject: str | None, version: str, schema_id: int | None, server: str, output: str) -> None:
    """Print a schema as it was registered."""
    if (subject is None) == (schema_id is None):
        raise click.UsageError("Name a SUBJECT, or an id with --id.")
    with connect(server) as client:
        call = schema_of(subject, version) if subject is not None else schema_by_id(schema_id or 0)
        found = client.perform(call)
    render(output, found, lambda: click.echo(found.schema), [found.subject or str(found.id)])


def _schema_options(command: F) -> F:
    """The file, its type and what it refers to."""
    command = click.option(
        "--reference", "references", multiple=True, metavar="NAME=SUBJECT:VERSION", help="What a name in it means."
    )(command)
    command = click.option(
        "--type", "kind", type=click.Choice(_KINDS, case_sensitive=False), help="Default by the file's name."
    )(command)
    return click.argument("file", type=click.Path(allow_dash=True, dir_okay=False, path_type=Path))(command)


@schema.command()
@click.argument("subject", type=SUBJECT)
@_schema_options
@server_option
@output_option
def register(subject: str, file: Path, kind: str | None, references: tuple[str, ...], server: str, output: str) -> None:
    """Register the schema in FILE (- for stdin) under SUBJECT."""
    new = _new(file, kind, references)
    with connect(server) as client:
        held = client.perform(register_schema(subject, new))
    told = {"id": held.id, "subject": held.subject, "version": held.version}
    sentence = f"{held.subject} version {held.version}, id {held.id}"
    render(output, told, lambda: click.echo(sentence), [subject])


@schema.command()
@click.argument("subject", type=SUBJECT)
@_schema_options
@click.option("--version", metavar="N", help="Against this version; default what the subject's level asks for.")
@server_option
@output_option
def check(
    subject: str,
    file: Path,
    kind: str | None,
    references: tuple[str, ...],
    version: str | None,
    server: str,
    output: str,
) -> None:
    """Say whether the schema in FILE could be registered under SUBJECT, and if not, why."""
    new = _new(file, kind, references)
    with connect(server) as client:
        found = client.perform(check_schema(subject, new, version))
    word = "compatible" if found.is_compatible else "not-compatible"
    lines = (["compatible"] if found.is_compatible else []) + list(found.messages or ())
    render(output, found, lambda: click.echo("\n".join(lines)), [word])
    if not found.is_compatible:
        raise Failed(f"the schema is not compatible with {subject!r}.")


@schema.command()
@click.argument("subject", type=SUBJECT)
@click.argument("old", metavar="OLD")
@click.argument("new", metavar="NEW", default="latest")
@server_option
@output_option
def diff(subject: str, old: str, new: str, server: str, output: str) -> None:
    """Compare two versions of SUBJECT: what changed, and which can read the other."""
    with connect(server) as client:
        first, second = client.perform(schema_of(subject, old)), client.perform(schema_of(subject, new))
        backward, forward = _compare(client, second, first, True), _compare(client, first, second, False)
    told = {"old": first.version, "new": second.version, "backward": backward, "forward": forward}
    render(output, told, lambda: _show_difference(subject, first, second, backward, forward), [subject])


def _show_difference(
    subject: str, first: RegisteredSchema, second: RegisteredSchema, backward: list[str], forward: list[str]
) -> None:
    names = (f"{subject} version {first.version}", f"{subject} version {second.version}")
    for line in difflib.unified_diff(_lines(first), _lines(second), *names, lineterm=""):
        click.echo(line)
    for what, breaks in (("backward", backward), ("forward", forward)):
        click.echo(f"{what}: {'compatible' if not breaks else 'broken'}")
        for one in breaks:
            click.echo(f"  {one}")


@schema.command()
@click.argument("subject", type=SUBJECT)
@click.option("--version", metavar="N", help="Only this version; `latest` is the last one.")
@click.option("--permanent", is_flag=True, help="For ever: what is deleted softly already.")
@yes_option
@server_option
@output_option
def delete(subject: str, version: str | None, permanent: bool, yes: bool, server: str, output: str) -> None:
    """Delete a version of SUBJECT, or all of them.

    Softly at first: ids stay good for reading, and `list --deleted` shows it. With --permanent it is gone.
    """
    what = f"subject {subject!r}" if version is None else f"version {version} of {subject!r}"
    with connect(server) as client:
        if not yes:
            confirm(f"Delete {what}{' for ever' if permanent else ''}?")
        gone = client.perform(delete_schema(subject, version, permanent))
    numbers = gone if isinstance(gone, list) else [gone]
    shown = ", ".join(map(str, numbers))
    tell(output, {"subject": subject, "versions": numbers}, f"Deleted {subject} version {shown}.", subject)


@schema.command()
@click.argument("subject", type=SUBJECT, required=False)
@click.option("--set", "level", type=click.Choice(LEVELS, case_sensitive=False), metavar="LEVEL", help=_LEVEL)
@click.option("--unset", is_flag=True, help="Take the level back to the registry's, or to the default.")
@click.option("--mode", type=click.Choice(MODES, case_sensitive=False), metavar="MODE", help=_MODE)
@click.option("--force", is_flag=True, help="To mode IMPORT even where something is registered.")
@server_option
@output_option
def config(
    subject: str | None, level: str | None, unset: bool, mode: str | None, force: bool, server: str, output: str
) -> None:
    """Show or change the level and mode of SUBJECT, or of the whole registry."""
    if level is not None and unset:
        raise click.UsageError("Either --set or --unset.")
    with connect(server) as client:
        if level is not None:
            client.perform(set_compatibility(level, subject))
        if unset:
            client.perform(unset_compatibility(subject))
        if mode is not None:
            client.perform(set_registry_mode(mode, subject, force))
        shown = {
            "compatibility": client.perform(compatibility(subject)),
            "mode": client.perform(registry_mode(subject)),
        }
        stats = client.perform(registry_stats())
    if level is not None or unset or mode is not None:
        remark(f"Changed {f'subject {subject!r}' if subject else 'the registry'}.")
    counts = {} if subject else {"subjects": f"{stats.subjects:,}", "schemas": f"{stats.schemas:,}"}
    show_facts(output, shown, (shown | counts).items(), subject or "registry")


def _new(file: Path, kind: str | None, references: tuple[str, ...]) -> NewSchema:
    chosen = kind or _TYPES.get(file.suffix)
    if chosen is None:
        raise click.UsageError(f"Name the schema's type with --type; files that end in {', '.join(_TYPES)} say it.")
    with click.open_file(str(file)) as opened:
        text = opened.read()
    return NewSchema(text, chosen.upper(), [_reference(one) for one in references])


def _reference(text: str) -> SchemaReference:
    name, _, place = text.partition("=")
    subject, _, version = place.rpartition(":")
    if not name or not subject or not version.isdecimal():
        raise click.BadParameter(f"{text!r} is not a reference; write NAME=SUBJECT:VERSION.", param_hint="--reference")
    return SchemaReference(name, subject, int(version))


def _lines(found: RegisteredSchema) -> list[str]:
    """JSON is laid out, so that a line is a thing."""
    if found.schema_type == "PROTOBUF":
        return found.schema.splitlines()
    try:
        return json.dumps(json.loads(found.schema), indent=2, ensure_ascii=False).splitlines()
    except ValueError:
        return found.schema.splitlines()


def _compare(client: Client, reader: RegisteredSchema, writer: RegisteredSchema, is_newer: bool) -> list[str]:
    documents = [parse(whole_schema(one), referred_schemas(client, one)) for one in (reader, writer)]
    return [str(one) for one in compare(documents[0], documents[1], is_newer)]
