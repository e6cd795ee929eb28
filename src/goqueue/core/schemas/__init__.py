"""Schemas: what is registered, under which names and ids, and how each kind is read and checked."""
