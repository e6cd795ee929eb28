"""Faults on purpose: a real cluster under load, what is done to it, and what must hold all the while."""
