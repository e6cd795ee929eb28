"""One HTML page about a lake: what flowed, how fast, what failed, and whether the lake is whole.

Plain rows in, text out: no Spark, no plotting package, nothing loaded from anywhere.
"""
