"""SQS's door: Amazon's queue protocol, in its JSON and its older query form, over topics and their leases."""
