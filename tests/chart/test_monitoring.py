"""The chart's alerts and dashboard match the metrics that the operator exports, and every alert has a runbook."""

from __future__ import annotations

import re
from itertools import combinations
from pathlib import Path
from typing import Any, TypeAlias

import pytest
import yaml

from tests.chart.rendering import CHART, named, rendered
from tools.chart_rules import alerts_of, panels, queries
from wakeboard_operator.metrics import Metrics

DASHBOARD = CHART / "files" / "dashboard.json"
TROUBLESHOOTING = CHART.parents[1] / "docs" / "troubleshooting.md"
UNITS = {"none", "s", "cpm"}
Alerts: TypeAlias = dict[str, dict[str, Any]]  # by name


@pytest.fixture(scope="module")
def alerts() -> Alerts:
    (rules,) = alerts_of(
        rendered({"monitoring": {"rules": {"enabled": True, "runbookUrl": "https://wiki.example.com/jobs"}}})
    )
    return {rule["alert"]: rule for group in rules["groups"] for rule in group["rules"]}


@pytest.fixture(scope="module")
def exported() -> set[str]:
    """The names of what the operator exports."""
    families = Metrics().registry.collect()
    endings = {"counter": "_total", "histogram": "_bucket"}
    return {family.name + endings.get(family.type, "") for family in families}


def metric_names(queries: list[str]) -> set[str]:
    return set(re.findall(r"wakeboard_\w+", " ".join(queries)))


def test_every_metric_that_an_alert_asks_for_is_exported(alerts: Alerts, exported: set[str]) -> None:
    assert metric_names([rule["expr"] for rule in alerts.values()]) <= exported


def test_every_metric_that_the_dashboard_asks_for_is_exported(exported: set[str]) -> None:
    assert metric_names(queries(DASHBOARD)) <= exported


def test_what_the_operator_exports_is_shown_or_alerted_on(alerts: Alerts, exported: set[str]) -> None:
    assert exported <= metric_names([*queries(DASHBOARD), *(rule["expr"] for rule in alerts.values())])


def test_every_alert_names_an_action_and_its_runbook_section(alerts: Alerts) -> None:
    for name, rule in alerts.items():
        assert rule["labels"]["severity"] in {"critical", "warning"}, name
        assert rule["annotations"]["summary"], name
        assert len(rule["annotations"]["description"]) > 100, name
        assert "<" not in rule["expr"].replace("<=", ""), f"{name}: a threshold was not filled in"


def test_every_alert_has_a_section_in_the_runbook(alerts: Alerts) -> None:
    headings = re.findall(r"^#+ (.+)$", TROUBLESHOOTING.read_text(), flags=re.MULTILINE)
    anchors = {re.sub(r"[^a-z0-9 -]", "", heading.lower()).replace(" ", "-") for heading in headings}
    wanted = {rule["annotations"]["runbook_url"].partition("#")[2] for rule in alerts.values()}
    assert wanted <= anchors


def test_every_alert_fires_in_one_test_and_stays_silent_in_another(alerts: Alerts) -> None:
    tests = yaml.safe_load((Path(__file__).parent / "alerts_test.yaml").read_text())["tests"]
    fires: set[str] = set()
    silent: set[str] = set()
    for case in (case for test in tests for case in test["alert_rule_test"]):
        (fires if case["exp_alerts"] else silent).add(case["alertname"])
    assert fires == set(alerts)
    assert silent == set(alerts)


def test_every_panel_says_what_it_shows_and_in_which_unit() -> None:
    for panel in panels(DASHBOARD):
        assert panel["title"]
        assert panel["description"].endswith("."), panel["title"]
        assert panel["fieldConfig"]["defaults"]["unit"] in UNITS, panel["title"]
        assert panel["datasource"]["uid"] == "${datasource}", panel["title"]
        assert all("$namespace" in target["expr"] for target in panel["targets"]), panel["title"]


def test_panels_do_not_overlap() -> None:
    places = [panel["gridPos"] for panel in panels(DASHBOARD)]
    for one, other in combinations(places, 2):
        side_by_side = one["x"] + one["w"] <= other["x"] or other["x"] + other["w"] <= one["x"]
        above = one["y"] + one["h"] <= other["y"] or other["y"] + other["h"] <= one["y"]
        assert side_by_side or above, (one, other)
    assert all(place["x"] + place["w"] <= 24 for place in places)


def test_the_dashboard_is_found_by_grafanas_sidecar() -> None:
    documents = rendered({"monitoring": {"dashboard": {"enabled": True}}})
    found = named(documents, "ConfigMap", "wakeboard-dashboard")
    assert found["metadata"]["labels"]["grafana_dashboard"] == "1"
    assert found["data"]["wakeboard-dashboard.json"].strip() == DASHBOARD.read_text().strip()
