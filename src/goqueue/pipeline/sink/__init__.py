"""Rows into topics, exactly once: every task writes into an open transaction, and one call shows them all together."""

from goqueue.pipeline.sink.writers import batch_writer, stream_writer

__all__ = ["batch_writer", "stream_writer"]
