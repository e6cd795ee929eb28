"""Makes the messages of GoQueue's own gRPC API."""
