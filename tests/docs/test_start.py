"""Each page for beginners, followed in an empty directory with an environment of its own, as somebody new would; how
long that took is printed."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest

from tests.deploy.fresh import ENVIRON, build_wheel, install, run, serving
from tests.docs.test_docs import ROOT, examples, matches
from tests.long import only_long

pytestmark = [only_long, pytest.mark.timeout(900)]
STARTS = sorted((ROOT / "docs/start").glob("*.md"))


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheel(tmp_path_factory.mktemp("wheels"))


def packages_of(page: Path, wheel: Path) -> list[str]:
    """What the page says to install, from the wheel instead of a checkout."""
    found = re.search(r"^pip install (.+?)(?: +#.*)?$", page.read_text(), re.MULTILINE)
    assert found is not None, page
    words = (word.strip("'") for word in found[1].split())
    return [f"{wheel}{word[1:]}" if word.startswith(".") else word for word in words]


@pytest.mark.parametrize("page", STARTS, ids=lambda page: page.stem)
def test_a_page_for_beginners_can_be_followed_in_an_empty_directory(page: Path, wheel: Path, tmp_path: Path) -> None:
    began = time.monotonic()
    programs = install(tmp_path, packages_of(page, wheel))
    installed = time.monotonic()
    environ = {**ENVIRON, "PATH": f"{programs}:{ENVIRON['PATH']}"}
    with serving(programs, tmp_path) as told:
        started = time.monotonic()
        places = dict(re.findall(r"^  (REST|Kafka|SQS) +(?:http://)?(\S+)$", told, re.MULTILINE))
        for language, code, expected in examples(page):
            for usual, name in (("localhost:8080", "REST"), ("localhost:9092", "Kafka"), ("localhost:9324", "SQS")):
                code = code.replace(usual, places[name])
            environ["GOQUEUE_SERVER"] = f"http://{places['REST']}"
            program = ["bash", "-euo", "pipefail"] if language == "sh" else [str(programs / "python")]
            shown = run(*program, "-c", code.replace("/tmp/", f"{tmp_path}/"), cwd=tmp_path, environ=environ)
            assert expected is None or matches(shown, expected), f"{code}\n{shown}"
    ended = time.monotonic()
    print(
        f"{page.stem}: installed in {installed - began:.0f} s, node ready after {started - installed:.1f} s,", end=" "
    )
    print(f"examples took {ended - started:.0f} s")
