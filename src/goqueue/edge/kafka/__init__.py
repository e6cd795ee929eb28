"""Kafka's door: its wire protocol on a socket, translated to commands and back."""
