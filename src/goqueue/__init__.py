"""GoQueue: one message broker that is both a log and a queue."""

__version__ = "0.1.0"
