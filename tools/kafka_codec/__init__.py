"""Writes `src/goqueue/wire/messages/` from the definitions of Kafka's messages: `make codec`."""
