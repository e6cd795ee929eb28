"""Every test here is watched for what transactions may never do."""

from tests.txn.lives import watched_lives

__all__ = ["watched_lives"]  # a fixture
