"""Benchmarks. Each prints ratios against a baseline of the same run, because machines are noisy."""
