"""Everything that moves or studies messages in bulk: the Spark connector, the lake, and the ready pipelines."""
