"""GoQueue: one message broker that is both a log and a queue."""

__version__ = "0.1.0"


def __getattr__(name: str) -> object:
    """What users import from here is loaded when they do, so that a node need not."""
    from importlib import import_module

    found = {"App": "worker", "Client": "client", "AsyncClient": "client", "chain": "worker", "chord": "worker"}
    found |= {"group": "worker", "Middleware": "worker", "Retry": "worker", "Reject": "worker"}
    if name not in found:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{found[name]}"), name)
