"""Message by message delivery of one partition to one group: who holds what, for how long, and what comes of it."""
