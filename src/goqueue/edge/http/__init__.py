"""What the doors over HTTP have in common: the server, its limits, bodies, and who may ask."""
