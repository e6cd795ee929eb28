"""The table of contents, and the generator's settings. A page that is named nowhere stands in the last section."""

from __future__ import annotations

import json
from collections.abc import Set
from typing import Final

SECTIONS: Final[dict[str, list[str]]] = {
    "Getting started": ["start/kafka.md", "start/sqs.md", "start/celery.md", "start/spark.md"],
    "Concepts": ["concepts.md", "glossary.md", "faq.md", "clock.md", "storage.md"],
    "Use it": [
        "queue.md",
        "groups.md",
        "dead-letters.md",
        "delay.md",
        "transactions.md",
        "schemas.md",
        "traces.md",
        "workers.md",
        "staged.md",
    ],
    "Protocols": ["kafka.md", "sqs.md", "rest.md", "grpc.md"],
    "Clients": ["clients.md", "python.md", "cli.md", "console.md"],
    "Operations": [
        "production.md",
        "deploy.md",
        "kubernetes.md",
        "configuration.md",
        "cluster.md",
        "processes.md",
        "backup.md",
        "metrics.md",
        "runbook.md",
        "benchmarks.md",
        "comparison.md",
    ],
    "Security": ["security.md", "security-acls.md", "tenants.md", "quotas.md", "threat-model.md", "reporting.md"],
    "Pipeline": ["pipeline.md", "pipeline-files.md", "lake.md", "sizing.md"],
    "Moving from": ["from-kafka.md", "from-rabbitmq.md", "from-sqs.md", "from-celery.md"],
    "Reference": [
        "reference/settings.md",
        "reference/metrics.md",
        "reference/errors.md",
        "reference/rest.md",
        "reference/kafka.md",
        "reference/grpc.md",
        "reference/cli.md",
    ],
    "Internals": [
        "architecture.md",
        "PATH.md",
        "file-formats.md",
        "cluster-tests.md",
        "chaos.md",
        "contributing.md",
        "changelog.md",
    ],
}
# What the contents call a page, where its own title says the section again.
_TITLES: Final = {
    "start/kafka.md": "For Kafka users",
    "start/sqs.md": "For SQS users",
    "start/celery.md": "For Celery users",
    "start/spark.md": "For Spark users",
    "reporting.md": "Report a vulnerability",
    "from-kafka.md": "Kafka",
    "from-rabbitmq.md": "RabbitMQ",
    "from-sqs.md": "SQS",
    "from-celery.md": "Celery",
}
_HEAD: Final = """[project]
site_name = "GoQueue"
site_description = "One message broker that is both a log and a queue."
docs_dir = "site-source"
site_dir = "site"
use_directory_urls = false
extra_css = ["site.css"]
nav = {nav}

[project.theme]
font = false
features = ["navigation.sections", "navigation.top", "content.code.copy", "toc.follow"]

[[project.theme.palette]]
media = "(prefers-color-scheme)"
toggle.icon = "lucide/sun-moon"
toggle.name = "As the system has it; switch to light"

[[project.theme.palette]]
media = "(prefers-color-scheme: light)"
scheme = "default"
toggle.icon = "lucide/sun"
toggle.name = "Light; switch to dark"

[[project.theme.palette]]
media = "(prefers-color-scheme: dark)"
scheme = "slate"
toggle.icon = "lucide/moon"
toggle.name = "Dark; switch to the system's"

[project.plugins.search]
[project.plugins.offline]
"""


def sections(pages: Set[str]) -> dict[str, list[str]]:
    """Those that are there, by section."""
    named = {page for listed in SECTIONS.values() for page in listed}
    decisions = sorted(page for page in pages if page.startswith("decisions/"))
    rest = sorted(pages - named - set(decisions) - {"index.md"})
    found = {title: [page for page in listed if page in pages] for title, listed in SECTIONS.items()}
    return (
        found
        | {"Decisions": sorted(decisions, key=lambda page: (not page.endswith("index.md"), page))}
        | ({"More": rest} if rest else {})
    )


def config(pages: Set[str]) -> str:
    """Settings as TOML; a list of inline tables reads like JSON with another sign."""
    parts = [json.dumps("index.md")]
    parts += [_entry(title, f"[{', '.join(map(_page, listed))}]") for title, listed in sections(pages).items()]
    return _HEAD.format(nav=f"[{', '.join(parts)}]")


def _page(name: str) -> str:
    return _entry(_TITLES[name], json.dumps(name)) if name in _TITLES else json.dumps(name)


def _entry(title: str, value: str) -> str:
    return f"{{{json.dumps(title)} = {value}}}"
