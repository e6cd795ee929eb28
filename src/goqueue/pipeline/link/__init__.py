"""How executors reach the node: a blocking client of Kafka's door, made for few large requests."""
