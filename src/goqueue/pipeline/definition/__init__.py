"""Pipelines that people write themselves, as files: sources, steps in SQL or Python, rules, sinks, and tests."""
