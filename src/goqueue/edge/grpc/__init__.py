"""gRPC's door: `goqueue.v1`, health and reflection. All but `opening.py` needs the extra `grpc`."""
