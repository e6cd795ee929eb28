"""Other brokers beside which the queue is measured: real servers, each with its usual Python client."""
