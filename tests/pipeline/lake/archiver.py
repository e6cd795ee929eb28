"""A process that archives, to be killed: `python -m tests.pipeline.lake.archiver KAFKA URL LAKE MAX_ROWS TOPIC...`."""

from __future__ import annotations

import sys

import msgspec

from goqueue.pipeline import archive
from goqueue.pipeline.running import Run, Silent
from goqueue.pipeline.session import session


def main() -> None:
    kafka, url, lake, max_rows, *topics = sys.argv[1:]
    spark = session("archiver", "local[2,4]", settings={"spark.driver.memory": "1g"})
    run = Run(kafka, url, tuple(topics), lake, options={"max-rows": max_rows})
    print(msgspec.json.encode(archive.run(spark, run, Silent())).decode(), flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
