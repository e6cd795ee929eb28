"""A demo: a node, an hour of a small shop's trade, and the pipelines on it.

Nothing in it is invented afterwards: what the pages show was published, taken, failed and measured during the tour.
"""
