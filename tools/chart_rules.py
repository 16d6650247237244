"""The chart's alerts and dashboard queries in formats for promtool and tests."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

Rules = dict[str, Any]  # a file of Prometheus: `groups`

FILLED_IN = {"$namespace": "jobs", "$job": "wakeboard-operator", "$__rate_interval": "5m"}


def alerts_of(objects: Iterable[dict[str, Any]]) -> list[Rules]:
    """The rules in a rendering."""
    return [found["spec"] for found in objects if found["kind"] == "PrometheusRule"]


def reduced(rules: Rules) -> Rules:
    """The rules with only their summaries as annotations, so that tests need not repeat the descriptions."""
    return {
        "groups": [
            {**group, "rules": [{**rule, "annotations": _summary(rule["annotations"])} for rule in group["rules"]]}
            for group in rules["groups"]
        ]
    }


def _summary(annotations: dict[str, str]) -> dict[str, str]:
    return {"summary": annotations["summary"]}


def panels(dashboard: Path) -> Iterator[dict[str, Any]]:
    """The dashboard's panels, without the titles of its rows."""
    return (panel for panel in json.loads(dashboard.read_text())["panels"] if panel["type"] != "row")


def queries(dashboard: Path) -> list[str]:
    """The queries of the dashboard, with values for its variables."""
    found = [target["expr"] for panel in panels(dashboard) for target in panel["targets"]]
    for variable, text in FILLED_IN.items():
        found = [query.replace(variable, text) for query in found]
    return found


def dashboard_queries(dashboard: Path) -> Rules:
    """The queries of the dashboard as recording rules, which promtool can check."""
    rules = [{"record": f"panel:{place}", "expr": query} for place, query in enumerate(queries(dashboard))]
    return {"groups": [{"name": "dashboard", "rules": rules}]}
