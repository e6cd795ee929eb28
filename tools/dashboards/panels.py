"""A dashboard as Grafana wants it: rows of panels, each with its expressions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

_SOURCE: Final = {"type": "prometheus", "uid": "${source}"}
_WIDTH: Final = 24
_HEIGHT: Final = 8
_STAT_HEIGHT: Final = 4


class Query(NamedTuple):
    """One line of a panel, or several if its legend has labels."""

    expr: str
    legend: str = ""


class Panel(NamedTuple):
    """`kind` is `timeseries`, `stat` or `table`. `of_cluster` if a node alone has nothing to show."""

    title: str
    queries: Sequence[Query]
    unit: str = "short"
    kind: str = "timeseries"
    text: str = ""
    of_cluster: bool = False


class Row(NamedTuple):
    """Panels that stand together."""

    title: str
    panels: Sequence[Panel]


class Board(NamedTuple):
    """`variables` are chosen at the top of the page, each by an expression that lists its values."""

    uid: str
    title: str
    text: str
    rows: Sequence[Row]
    variables: Sequence[tuple[str, str]] = ()

    def panels(self) -> list[Panel]:
        return [panel for row in self.rows for panel in row.panels]

    def json(self) -> dict[str, Any]:
        return {
            "uid": self.uid,
            "title": self.title,
            "description": self.text,
            "tags": ["goqueue"],
            "editable": False,
            "graphTooltip": 1,
            "refresh": "30s",
            "schemaVersion": 38,
            "time": {"from": "now-1h", "to": "now"},
            "timezone": "browser",
            "links": [{"type": "dashboards", "tags": ["goqueue"], "title": "GoQueue", "asDropdown": True}],
            "templating": {"list": [_source(), *(_variable(*one) for one in self.variables)]},
            "annotations": {"list": []},
            "panels": _placed(self.rows),
        }


def _source() -> dict[str, Any]:
    return {"name": "source", "label": "Prometheus", "type": "datasource", "query": "prometheus"}


def _variable(name: str, expr: str) -> dict[str, Any]:
    return {
        "name": name,
        "label": name,
        "type": "query",
        "datasource": _SOURCE,
        "query": {"query": expr, "refId": name},
        "refresh": 2,
        "sort": 1,
        "multi": True,
        "includeAll": True,
        "allValue": ".+",
        "current": {"text": "All", "value": "$__all"},
    }


def _placed(rows: Sequence[Row]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    y = 0
    for row in rows:
        found.append({"type": "row", "title": row.title, "id": len(found) + 1, "gridPos": _at(0, y, _WIDTH, 1)})
        y += 1
        height = _STAT_HEIGHT if all(one.kind == "stat" for one in row.panels) else _HEIGHT
        width = _WIDTH // min(len(row.panels), 4 if height == _HEIGHT else 6)
        for number, panel in enumerate(row.panels):
            per_line = _WIDTH // width
            place = _at(number % per_line * width, y + number // per_line * height, width, height)
            found.append(_panel(panel, len(found) + 1, place))
        y += -(-len(row.panels) // (_WIDTH // width)) * height
    return found


def _at(x: int, y: int, width: int, height: int) -> dict[str, int]:
    return {"x": x, "y": y, "w": width, "h": height}


def _panel(panel: Panel, number: int, place: dict[str, int]) -> dict[str, Any]:
    return {
        "id": number,
        "type": panel.kind,
        "title": panel.title,
        "description": panel.text,
        "datasource": _SOURCE,
        "gridPos": place,
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "options": _OPTIONS[panel.kind],
        "targets": [_target(query, panel, chr(ord("A") + at)) for at, query in enumerate(panel.queries)],
    }


_OPTIONS: Final[dict[str, dict[str, Any]]] = {
    "timeseries": {
        "legend": {"displayMode": "list", "placement": "bottom"},
        "tooltip": {"mode": "multi", "sort": "desc"},
    },
    "stat": {"reduceOptions": {"calcs": ["lastNotNull"]}, "graphMode": "area", "colorMode": "value"},
    "table": {"showHeader": True},
}


def _target(query: Query, panel: Panel, letter: str) -> dict[str, Any]:
    is_table = panel.kind == "table"
    return {
        "refId": letter,
        "datasource": _SOURCE,
        "expr": query.expr,
        "legendFormat": query.legend or "__auto",
        "instant": is_table,
        "range": not is_table,
        "format": "table" if is_table else "time_series",
        "exemplar": "_bucket" in query.expr,
    }
