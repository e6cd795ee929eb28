"""Message traces, decided: which messages, under which ids, and what their events add up to."""
