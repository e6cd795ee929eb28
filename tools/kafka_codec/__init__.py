"""Writes `src/goqueue/wire/` from Kafka's message definitions: `python -m tools.kafka_codec`."""
