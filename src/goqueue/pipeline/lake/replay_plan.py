"""A replay's plan: what is asked for, cut into numbered chunks, and written down before the first is sent.

The node keeps the number of the last chunk that it took. With the plan written down, a replay that was cut off goes on
with the very same chunks, so each is sent once.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Final

import msgspec
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from goqueue.base.decoders import from_json
from goqueue.pipeline.lake.chunks import Block, Chunk, cut
from goqueue.pipeline.lake.errors import LakeError
from goqueue.pipeline.lake.selection import Selection
from goqueue.pipeline.storage import read_text, write_text

_BLOCKS_A_CHUNK: Final = 8


class Wish(msgspec.Struct, frozen=True):
    """All that makes a replay another replay."""

    archive: str
    selection: Selection
    into: str
    chunk_rows: int
    keep_times: bool
    keep_partitions: bool
    name: str

    @property
    def owner(self) -> str:
        """The name under which the node counts the chunks."""
        return f"replay-{sha256(msgspec.json.encode(self)).hexdigest()[:32]}"


class ReplayPlan(msgspec.Struct, frozen=True):
    wish: Wish
    chunks: tuple[Chunk, ...]

    @property
    def rows(self) -> int:
        return sum(chunk.rows for chunk in self.chunks)


def made(wish: Wish, chosen: DataFrame) -> ReplayPlan:
    """Counts the messages that were chosen, in blocks, and cuts them up."""
    return ReplayPlan(wish, tuple(cut(blocks(chosen, max(1, wish.chunk_rows // _BLOCKS_A_CHUNK)), wish.chunk_rows)))


def blocks(chosen: DataFrame, size: int) -> list[Block]:
    """How many messages there are in each stretch of so many offsets."""
    stretch = f.floor(f.col("offset") / f.lit(size))
    found = chosen.groupBy("topic", "partition", stretch).agg(
        f.min("offset").alias("start"),
        (f.max("offset") + 1).alias("end"),
        f.count("*").alias("rows"),
        f.coalesce(f.min(f.unix_millis("timestamp")), f.lit(0)).alias("time_ms"),
    )
    names = ("topic", "partition", "start", "end", "rows", "time_ms")
    return [Block(*(row[name] for name in names)) for row in found.select(*names).collect()]


def kept(path: str, wish: Wish, last_sent: int | None) -> ReplayPlan | None:
    """The plan that was written down; None if this replay is new."""
    text = read_text(path)
    if text is not None:
        return from_json(text, ReplayPlan)
    if last_sent is not None:
        raise LakeError(
            f"Parts of this replay were sent into {wish.into} already, and its plan {path} is gone. Nobody can tell "
            "what is missing; give it another name to send all of it."
        )
    return None


def keep(path: str, plan: ReplayPlan) -> None:
    write_text(path, msgspec.json.encode(plan).decode())
