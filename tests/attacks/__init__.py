"""Attackers beside ordinary clients, on a real node."""
