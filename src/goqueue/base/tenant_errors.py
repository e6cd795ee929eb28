"""Errors that only a tenant's clients get."""

from __future__ import annotations

from goqueue.base.errors import GroupAuthorizationFailed, TopicAuthorizationFailed


class NamelessTopic(TopicAuthorizationFailed):
    """In a tenant no topic has an empty name."""


class NamelessGroup(GroupAuthorizationFailed):
    """In a tenant no group has an empty name."""
