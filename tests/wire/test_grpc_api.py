"""The gRPC API's file: what is checked in is what it makes, and it keeps the rules of such files."""

from __future__ import annotations

import re
from pathlib import Path

from goqueue.wire import goqueue_pb2 as pb
from tools.grpc_api.__main__ import MADE, NAME, PROTOS, WIRE, generate

LINES = (PROTOS / NAME).read_text().splitlines()


def test_the_checked_in_modules_are_what_the_file_makes(tmp_path: Path) -> None:
    generate(tmp_path)
    for name in MADE:
        assert (tmp_path / name).read_text() == (WIRE / name).read_text(), f"{name}: run make codec"


def test_names_have_the_usual_forms() -> None:
    for message in pb.DESCRIPTOR.message_types_by_name.values():
        assert re.fullmatch(r"([A-Z][a-z]+)+", message.name), message.name
        assert all(re.fullmatch(r"[a-z][a-z0-9]*(_[a-z0-9]+)*", field.name) for field in message.fields), message.name
    for enum in pb.DESCRIPTOR.enum_types_by_name.values():
        prefix = re.sub(r"(?<!^)(?=[A-Z])", "_", enum.name).upper()
        assert enum.values_by_number[0].name == f"{prefix}_UNSPECIFIED"
        assert all(value.name.startswith(f"{prefix}_") for value in enum.values)


def test_every_method_has_a_request_of_its_own() -> None:
    methods = [method for service in pb.DESCRIPTOR.services_by_name.values() for method in service.methods]
    streams = {"PublishMany", "PublishStream", "PublishBatchStream", "FetchBatchStream"}  # as their single forms
    for method in methods:
        assert method.input_type.name == f"{method.name}Request" or method.name in streams
    assert len({method.name for method in methods}) == len(methods)


def test_fields_count_from_one_without_gaps() -> None:
    for message in pb.DESCRIPTOR.message_types_by_name.values():
        assert [field.number for field in message.fields] == list(range(1, len(message.fields) + 1)), message.name


def test_lines_are_short_and_the_package_has_a_version() -> None:
    assert pb.DESCRIPTOR.package == "goqueue.v1"
    assert all(len(line) <= 120 and "\t" not in line for line in LINES)
