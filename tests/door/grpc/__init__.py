"""gRPC's door, by stock clients with generated stubs."""
