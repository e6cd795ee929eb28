"""A process that copies a topic to be killed: `python -m tests.pipeline.sink.copier KAFKA FROM TO CHECKPOINT ROWS`."""

from __future__ import annotations

import sys

from goqueue.pipeline.session import session
from tests.pipeline.running import ended

BEGUN = "the copy has begun"


def main(kafka: str, source: str, sink: str, checkpoint: str, rows: str) -> None:
    spark = session("copier", "local[2,4]", settings={"spark.driver.memory": "1g"})
    read = spark.readStream.format("goqueue").option("kafka.bootstrap.servers", kafka).option("subscribe", source)
    frame = read.option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", rows).load()
    # Two tasks a batch, and one of them for all rows of a key.
    copied = frame.repartition(2, "key").select("key", "value")
    writer = copied.writeStream.format("goqueue").option("kafka.bootstrap.servers", kafka).option("topic", sink)
    query = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
    print(BEGUN, flush=True)
    ended(query, deadline_s=3000)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
