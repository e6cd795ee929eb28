"""Topics in plain SQL, without any Python: `CREATE TABLE ... USING goqueue`, SELECT and INSERT."""

from __future__ import annotations

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from bench.node_process import NodeProcess
from tests.pipeline.definition.files import messages, publish

pytestmark = pytest.mark.xdist_group("spark")


def test_a_topic_is_a_table(spark: SparkSession, module_node: NodeProcess) -> None:
    publish(module_node, "in-sql", [{"id": n} for n in range(10)])
    publish(module_node, "in-sql-2", [{"id": n} for n in range(3)])
    doors = f"url '{module_node.url}', subscribe 'in-sql'"
    try:
        spark.sql(f"CREATE TABLE in_sql USING goqueue OPTIONS ({doors}, topic 'in-sql')")
        spark.sql("INSERT INTO in_sql (key, value) SELECT CAST('k' AS BINARY), CAST('10' AS BINARY)")
        counted = spark.sql("SELECT count(*) AS n, sum(get_json_object(STRING(value), '$.id')) AS total FROM in_sql")
        assert [tuple(row) for row in counted.collect()] == [(11, 45.0)]
        assert ("k", 10) in messages(spark, module_node, "in-sql")
        assert spark.sql("SELECT * FROM in_sql WITH (subscribe 'in-sql-2')").count() == 3
        spark.sql(f"CREATE TEMPORARY VIEW in_view USING goqueue OPTIONS ({doors}, columns 'offset')")
        assert spark.table("in_view").columns == ["offset"] and spark.table("in_view").count() == 11
    finally:
        spark.sql("DROP TABLE IF EXISTS in_sql")
        spark.sql("DROP VIEW IF EXISTS in_view")


def test_a_path_that_a_person_gives_is_refused(spark: SparkSession, module_node: NodeProcess) -> None:
    with pytest.raises(PySparkException, match="Topics have no path"):
        spark.read.format("goqueue").option("url", module_node.url).load("in-sql").count()
