"""The reading half of the connector: plain functions first, and thin classes that Spark calls on top of them."""
