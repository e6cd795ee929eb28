"""Pieces of Kafka's door by themselves."""
