"""Builds Grafana's dashboards and Prometheus' rules of `deploy/`: the one place where they are written."""
