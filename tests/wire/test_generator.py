"""The checked-in codec is what the generator writes, from definitions that are Kafka's."""

from __future__ import annotations

import re
from importlib.metadata import distribution
from pathlib import Path

import pytest

import goqueue.pipeline
import goqueue.wire.messages
from goqueue.wire.api import APIS as BROKER_APIS
from goqueue.wire.shape import ClientApi
from tools.kafka_codec.__main__ import generate
from tools.kafka_codec.adopt import adopted
from tools.kafka_codec.model import APIS, DEFINITIONS, snake

BY_HAND = {"__init__.py"}
# Through the distribution, not the package: importing kafka-python loads its whole client.
KAFKA_PYTHON = Path(str(distribution("kafka-python").locate_file("kafka/protocol/schemas/resources")))
NOT_IN_KAFKA_PYTHON = {api for api in APIS if "Share" in api} | {"ConsumerGroupHeartbeat", "ConsumerGroupDescribe"}


def test_generating_again_changes_nothing(tmp_path: Path) -> None:
    kept = Path(goqueue.wire.messages.__path__[0])
    made = {path.name: path.read_text() for path in generate(tmp_path)}
    assert made == {path.name: path.read_text() for path in kept.glob("*.py") if path.name not in BY_HAND}


def test_every_definition_belongs_to_an_api() -> None:
    assert {path.name for path in DEFINITIONS.iterdir()} == {f"{snake(api)}.json" for api in APIS}


@pytest.mark.parametrize("api", sorted({*APIS} - NOT_IN_KAFKA_PYTHON))
def test_a_definition_is_what_is_adopted_from_kafkas_files(api: str) -> None:
    assert (DEFINITIONS / f"{snake(api)}.json").read_text() == adopted(KAFKA_PYTHON, api)


def test_a_clients_side_is_there_for_what_the_pipeline_asks_and_nothing_else() -> None:
    sources = Path(goqueue.pipeline.__path__[0]).rglob("*.py")
    text = "\n".join(path.read_text() for path in sources)
    imported = set(re.findall(r"from goqueue\.wire\.messages\.(\w+) import", text))
    for names in re.findall(r"from goqueue\.wire\.messages import (.+)", text):
        imported |= {name.split(" as ")[0] for name in names.split(", ")}
    assert imported == {snake(api.name) for api in BROKER_APIS.values() if isinstance(api, ClientApi)}
