"""What `goqueue pipeline new` writes: a pipeline that runs, with its test, to be changed into one's own."""

from __future__ import annotations

from string import Template
from typing import Final

_TEXT: Final = Template('''\
# Run it with `goqueue pipeline run $name.toml`, test it with `goqueue pipeline test $name.toml`.
name = "$name"
description = "Large orders of each customer, to a table and to a topic."
lake = "lake"                      # a folder beside this file, or s3://bucket/lake

[node]
url = "http://localhost:8080"      # the REST door of any node

[[source]]
name = "orders"                    # the view that SQL below reads
topic = "orders"
columns = "id string, customer string, total double, at timestamp"   # of the JSON values; or: schema = "registry"
watermark = "at 10 minutes"        # how late an order may be

[[rule]]
name = "total-is-positive"
view = "orders"
must = "total > 0"                 # other rows go to the table `quarantine`, with the reason

[[step]]
name = "large"
sql = """
SELECT id, customer, total, at
FROM orders
WHERE total >= 100
"""

[[sink]]
view = "large"
table = "large_orders"             # of the lake, exactly once

[[sink]]
view = "large"
topic = "large-orders"             # exactly once; the value is JSON of all columns
key = "customer"

[[test]]
name = "small orders are left out"
given.orders = [
  { id = "a", customer = "ann", total = 250.0, at = 2026-01-31T12:00:00Z },
  { id = "b", customer = "bob", total = 20.0, at = 2026-01-31T12:01:00Z },
  { id = "c", customer = "bob", total = -5.0, at = 2026-01-31T12:02:00Z },
]
expect.large = [{ id = "a", customer = "ann" }]
''')


def template(name: str) -> str:
    return _TEXT.substitute(name=name)
