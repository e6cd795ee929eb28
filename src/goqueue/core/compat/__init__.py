"""Compatibility: whether data written with one schema can be read with another, and if not, where and why."""
