"""What doors have in common about who comes in: TLS, credentials over HTTP, and how all of it is put together."""
