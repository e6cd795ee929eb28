"""The documentation is true: its examples run, and nothing that a user can set or see is missing from it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import textwrap
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.node_process import NodeProcess
from goqueue.base.settings import load_settings, setting_keys
from goqueue.base.topic_config import CONFIG_KEYS, TopicConfig, as_text
from tests.etcd import etcd_program

ROOT = Path(__file__).parents[2]
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "docs/start").glob("*.md")),
]
DECISIONS = sorted((ROOT / "docs/decisions").glob("*.md"))
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```\n(?:\n?```text\n(.*?)^```\n)?", re.MULTILINE | re.DOTALL)


def examples(page: Path) -> Iterator[tuple[str, str, str | None]]:
    """(language, code, expected output) of every block that is meant to run: `sh` and `python`."""
    for language, code, expected in BLOCK.findall(page.read_text()):
        if language in ("sh", "python"):
            yield language, code, expected or None


def run(language: str, code: str, node: NodeProcess, folder: Path) -> str:
    """The examples name the usual ports and `/tmp`; the node has other ports, and each test a folder of its own."""
    port = node.url.rpartition(":")[2]
    code = code.replace("/tmp/", f"{folder}/").replace("8080", port).replace("localhost:9092", node.kafka)
    code = code.replace("localhost:9324", f"localhost:{node.sqs.rpartition(':')[2]}")
    code = code.replace("localhost:9000", node.grpc)
    command = (
        ["bash", "-euo", "pipefail", "-c", code] if language == "sh" else [sys.executable, "-W", "error", "-c", code]
    )
    environ = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "GOQUEUE_SERVER": f"http://127.0.0.1:{port}",
    }
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, env=environ, cwd=ROOT)
    assert done.returncode == 0, f"{code}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def matches(printed: str, expected: str) -> bool:
    """Line by line; `…` stands for anything, a line of it alone for any lines."""
    pattern = re.escape(expected.strip()).replace(re.escape("…\n"), r"(?:.*\n)*?").replace("…", ".*?")
    return re.fullmatch(pattern, printed.strip()) is not None


# Those that run pipelines share a Spark session: tests/pipeline/test_docs.py follows them on one node.
ON_SPARK = ("start/spark.md", "pipeline.md", "lake.md", "pipeline-files.md")


# Pages are followed one after the other on one node, in this order: no name of theirs is taken twice.
TOGETHER = [
    *("README.md", "start/kafka.md", "start/sqs.md", "start/celery.md", "queue.md", "groups.md"),
    *("dead-letters.md", "delay.md", "transactions.md", "schemas.md", "traces.md", "workers.md", "staged.md"),
    *("kafka.md", "sqs.md", "rest.md", "grpc.md", "python.md", "clients.md", "cli.md"),
    *("backup.md", "file-formats.md", "quotas.md", "security.md", "security-acls.md", "tenants.md"),
    *("from-kafka.md", "from-rabbitmq.md", "from-sqs.md", "from-celery.md", "sizing.md"),
]
# The others, and why.
BY_THEMSELVES = {"cluster.md": "it starts three nodes of its own, and needs no other"}


def name_of(page: Path) -> str:
    return page.name if page.parent == ROOT else str(page.relative_to(ROOT / "docs"))


EVERY_PAGE = [*PAGES, *(ROOT / one for one in ("deploy/README.md", "examples/README.md")), *DECISIONS]
# Commands and programs that are on pages and that no test types from there, how many blocks, and why.
NOT_TYPED = {
    "README.md": (2, "make installs, and needs the network; a container engine: tests/deploy has the image"),
    "CONTRIBUTING.md": (2, "they are this"),
    "deploy/README.md": (3, "a container engine; tests/deploy/test_compose_up.py, where there is one"),
    "docs/backup.md": (5, "nodes that stay, buckets and tools of others; tests/cli restores into nodes of its own"),
    "docs/benchmarks.md": (1, "hours"),
    "docs/chaos.md": (2, "hours, and root"),
    "docs/cli.md": (2, "a node that stays; files of a node of the reader's"),
    "docs/clients.md": (1, "there is no .NET here"),
    "docs/cluster.md": (2, "nodes that stay; tests/cluster has each of these commands"),
    "docs/cluster-tests.md": (1, "hours"),
    "docs/configuration.md": (2, "nodes that stay, a topic of the reader's"),
    "docs/from-rabbitmq.md": (1, "RabbitMQ; tests/cli/test_copy_rabbitmq.py runs one"),
    "docs/grpc.md": (1, "grpcurl"),
    "docs/index.md": (1, "tests/docs/test_start.py installs in environments of its own"),
    "docs/kafka.md": (3, "nodes that stay; Kafka's programs, which tests/door/kafka runs"),
    "docs/kubernetes.md": (11, "a Kubernetes; tests/kubernetes does the same where there is one"),
    "docs/lake.md": (3, "they take away what the page goes on with; tests/pipeline has tables of its own"),
    "docs/pipeline-files.md": (2, "a server that stays, a pipeline of the reader's"),
    "docs/pipeline.md": (
        5,
        "an installation, YARN and machines of the reader's; tests/pipeline has SQL and declarative pipelines",
    ),
    "docs/processes.md": (1, "a node that stays"),
    "docs/production.md": (1, "root and systemd; tests/docs/test_site.py reads the unit"),
    "docs/queue.md": (1, "Kafka's programs, which tests/door/kafka runs"),
    "docs/runbook.md": (9, "broken clusters; the drills of `python -m chaos` type what the page says"),
    "docs/security.md": (2, "a node before its first start, and one with TLS; tests/door/security has such nodes"),
    "docs/sqs.md": (1, "AWS's command line"),
    "docs/start/celery.md": (1, "tests/docs/test_start.py installs what this says"),
    "docs/start/kafka.md": (1, "tests/docs/test_start.py installs what this says"),
    "docs/start/spark.md": (2, "tests/docs/test_start.py installs what this says; a demonstration of minutes"),
    "docs/start/sqs.md": (1, "tests/docs/test_start.py installs what this says"),
    "docs/traces.md": (1, "a node that stays, and a collector"),
    "docs/workers.md": (2, "a worker that stays, and dead letters of the reader's"),
}
RUN = ("sh", "python", "java", "go", "javascript")  # the last three by test_clients.py
DATA = ("text", "toml", "yaml", "json", "properties")
FENCE = re.compile(r"^( *)```(\w*)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
OUTPUT = re.compile(r"^```(?:sh|python|java|go|javascript)\n(?:(?!^```).*\n)*```\n+\Z", re.MULTILINE)
COMMAND = re.compile(
    r"^(?:[A-Z_]+=\S+ )*(?:goqueue|python3?|pip|make|docker|kubectl|helm|curl|systemctl|cp|mount|openssl|aws|for|cd"
    r"|pytest|export|\.venv/bin/\S+|kafka-[\w-]+\.sh|spark-\w+|bin/\S+) \S",
    re.MULTILINE,
)

RUN_HERE = [page for page in PAGES if name_of(page) not in ON_SPARK and list(examples(page))]


def follow(page: Path, node: NodeProcess, folder: Path) -> None:
    """Every example of the page prints what it says."""
    port, sqs = node.url.rpartition(":")[2], node.sqs.rpartition(":")[2]
    for language, code, expected in examples(page):
        printed = run(language, code, node, folder).replace(port, "8080").replace(sqs, "9324")
        if expected is not None:
            assert matches(printed, expected), f"{page}\n{code}\nprinted:\n{printed}\nexpected:\n{expected}"


def lacks_a_tool(page: Path) -> str:
    """The first program that its examples need and that is not here."""
    tools = (tool for tool in ("curl", "kcat") if f"{tool} -" in page.read_text() and shutil.which(tool) is None)
    return next(tools, "")


@pytest.mark.parametrize("name", BY_THEMSELVES)
def test_the_examples_of_a_page_with_nodes_of_its_own_work_as_printed(name: str, tmp_path: Path) -> None:
    etcd_program()
    with NodeProcess(tmp_path / "data") as node:
        follow(ROOT / "docs" / name, node, tmp_path)


def test_every_page_with_examples_is_followed() -> None:
    assert sorted(map(name_of, RUN_HERE)) == sorted([*TOGETHER, *BY_THEMSELVES])


def test_every_block_runs_or_is_listed_with_the_reason() -> None:
    """Pages mark what a reader types and no test does as `shell`; what is printed, and nothing else, as `text`."""
    found: Counter[str] = Counter()
    for page in EVERY_PAGE:
        text = page.read_text()
        for block in FENCE.finditer(text):
            is_run = block[2] in RUN and not block[1]
            found[str(page.relative_to(ROOT))] += not is_run and block[2] not in DATA
            is_printed = OUTPUT.search(text[: block.start()]) is not None
            hides = block[2] == "text" and not is_printed and COMMAND.search(textwrap.dedent(block[3])) is not None
            assert not hides, f"{page.name} has commands as text:\n{block[0]}"
    assert {name: count for name, count in found.items() if count} == {name: one[0] for name, one in NOT_TYPED.items()}


def test_settings_on_pages_are_settings(tmp_path: Path) -> None:
    """Those of pipelines are held by tests/pipeline/definition."""
    blocks = [
        (page, textwrap.dedent(text))
        for page in EVERY_PAGE
        for _, language, text in FENCE.findall(page.read_text())
        if language == "toml" and page.name != "pipeline-files.md"
    ]
    assert len(blocks) >= 8
    for page, text in blocks:
        (tmp_path / "node.toml").write_text(text)
        assert load_settings(tmp_path / "node.toml", {}, {}), page.name


def test_no_two_pages_make_the_same_topic() -> None:
    """Also those that are followed on other nodes here: a reader has one."""
    made = re.compile(r"topic create ([\w.~-]+)|/topics -d '{\"name\": \"([\w.-]+)\"|create_topic\(\s*\"([\w.-]+)\"")
    taken: dict[str, str] = {}
    for page in (page for page in PAGES if name_of(page) not in BY_THEMSELVES):
        for _, code, _ in examples(page):
            for name in ("".join(found) for found in made.findall(code)):
                assert taken.setdefault(name, page.name) == page.name, f"{page.name}: {name}"
    assert len(taken) > 20


@pytest.fixture(scope="module")
def one_node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    with NodeProcess(tmp_path_factory.mktemp("pages") / "data") as node:
        yield node


@pytest.mark.parametrize("name", TOGETHER)
def test_pages_can_be_followed_one_after_the_other_on_one_node(name: str, one_node: NodeProcess) -> None:
    page = next(page for page in RUN_HERE if name_of(page) == name)
    if tool := lacks_a_tool(page):
        pytest.skip(f"the examples of this page need {tool}")
    follow(page, one_node, one_node.data_dir.parent)


def test_every_setting_is_documented_with_its_default() -> None:
    text = (ROOT / "docs/configuration.md").read_text()
    for key in setting_keys():
        row = re.search(
            rf"^\| `{re.escape(key.dotted)}` \| `{key.variable}` \| `(.*?)` \| (.*) \|$", text, re.MULTILINE
        )
        assert row is not None, key.dotted
        assert row[2] == key.doc
        shown = load_settings(None, {}, {key.dotted: row[1]})
        assert getattr(getattr(shown, key.section), key.name) == key.default, key.dotted


def test_every_topic_setting_is_documented_with_its_default() -> None:
    text = (ROOT / "docs/configuration.md").read_text()
    for name, value in as_text(TopicConfig()).items():
        assert f"| `{name}` | `{value}` | {CONFIG_KEYS[name].doc} |" in text


def test_the_files_that_the_path_names_exist() -> None:
    named = re.findall(r"`(src/[\w/.]+)`", (ROOT / "docs/PATH.md").read_text())
    assert len(named) > 20
    for path in named:
        assert (ROOT / path).is_file(), path
    for layer in ("drive", "service"):
        for file in (ROOT / "src/goqueue" / layer).glob("[!_]*.py"):
            assert f"src/goqueue/{layer}/{file.name}" in named, f"docs/PATH.md does not name {file.name}"


def test_what_belongs_to_a_step_or_point_is_indented_by_four() -> None:
    """With less the site ends the list there, and counts the next step from one again."""
    for page in EVERY_PAGE:
        text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
        wrong = re.findall(r"\n\n {1,3}\S.*|^ {1,3}(?:[-*]|\d+\.) .*", text, re.MULTILINE)
        assert wrong == [], page.name


def test_links_between_pages_lead_somewhere() -> None:
    for page in [*PAGES, *DECISIONS]:
        for target, anchor in re.findall(r"\]\(([^)#:]*)(?:#([\w-]*))?\)", page.read_text()):
            found = page.parent / target if target else page
            assert found.exists(), f"{page.name}: {target}"
            if anchor and found.suffix == ".md":
                assert anchor in anchors(found), f"{page.name}: {target}#{anchor}"


def anchors(page: Path) -> set[str]:
    """Of its headings, as sites make them: lower case, dashes for spaces, signs left out."""
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    heads = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head).strip().lower().replace(" ", "-") for head in heads}
