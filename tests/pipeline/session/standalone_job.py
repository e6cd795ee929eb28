"""A job for a cluster elsewhere: `python -m tests.pipeline.session.standalone_job MASTER URL TOPIC`.

Writes a hundred rows, reads them back, and prints from where each executor loaded the package.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any

from goqueue.pipeline.session import session


def loaded(batches: Iterator[Any]) -> Iterator[Any]:
    import pyarrow

    import goqueue

    for _ in batches:
        yield pyarrow.record_batch({"at": [goqueue.__file__]})


def main(master: str, url: str, topic: str) -> None:
    settings = {"spark.driver.memory": "512m", "spark.executor.memory": "512m", "spark.driver.host": "127.0.0.1"}
    spark = session("standalone", master, settings=settings)
    rows = spark.range(100, numPartitions=2).selectExpr("CAST(id AS STRING) AS value")
    rows.write.format("goqueue").mode("append").option("url", url).option("topic", topic).save()
    count = spark.read.format("goqueue").option("url", url).option("subscribe", topic).load().count()
    found = spark.range(20, numPartitions=20).mapInArrow(loaded, "at STRING").collect()
    print(json.dumps({"count": count, "at": sorted({row.at for row in found})}), flush=True)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
