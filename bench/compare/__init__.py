"""Side by side with other brokers: scenarios x systems, every message checked, ratios first."""
