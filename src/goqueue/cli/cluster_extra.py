"""What a node of a cluster needs beyond a node that is alone."""

from __future__ import annotations

from goqueue.base.startup_errors import NeedsExtra


def require_cluster_extra() -> None:
    """`NeedsExtra` names what to install."""
    try:
        import grpc  # noqa: F401
    except ModuleNotFoundError as error:
        raise NeedsExtra(
            f"A cluster needs the package {error.name}, which is not installed. Install it with "
            "pip install 'goqueue[cluster]', or with make cluster in a checkout."
        ) from None
