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
    "Pipeline": ["pipeline.md", "pipeline-files.md", "lake.md"],
    "Moving from": ["from-kafka.md", "from-rabbitmq.md", "from-sqs.md", "from-celery.md"],
    "Reference": ["reference/settings.md", "reference/errors.md", "reference/rest.md", "reference/cli.md"],
    "Internals": ["architecture.md", "PATH.md", "cluster-tests.md", "chaos.md", "contributing.md", "changelog.md"],
}
_HEAD: Final = """[project]
site_name = "GoQueue"
site_description = "One message broker that is both a log and a queue."
docs_dir = "site-source"
site_dir = "site"
use_directory_urls = false
nav = {nav}

[project.theme]
font = false
features = ["navigation.sections", "navigation.top", "content.code.copy", "toc.follow"]

[[project.theme.palette]]
media = "(prefers-color-scheme: light)"
scheme = "default"
toggle.icon = "lucide/moon"
toggle.name = "Dark"

[[project.theme.palette]]
media = "(prefers-color-scheme: dark)"
scheme = "slate"
toggle.icon = "lucide/sun"
toggle.name = "Light"

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
    parts += [f"{{{json.dumps(title)} = {json.dumps(listed)}}}" for title, listed in sections(pages).items()]
    return _HEAD.format(nav=f"[{', '.join(parts)}]")
