"""Linter findings are reported unless an exemption covers them. Unused exemptions are reported too."""

from __future__ import annotations

from dataclasses import replace

from tools.chart_exceptions import Exemption, Finding, unexcused

LIMIT = Finding("kube-score", "cpu-limit", "default", "Deployment/wakeboard-operator", "CPU limit is not set")


def test_a_finding_without_a_reason_is_reported_once_with_its_object_its_rule_and_where() -> None:
    elsewhere = replace(LIMIT, rendering="pools")
    reported = "Deployment/wakeboard-operator: CPU limit is not set (cpu-limit) in default, pools"
    assert unexcused([elsewhere, LIMIT, LIMIT], []) == [reported]


def test_a_finding_with_a_reason_is_not() -> None:
    assert unexcused([LIMIT], [Exemption(("cpu-limit",), "Deployment/.*-operator", "…")]) == []


def test_a_reason_holds_for_the_rules_objects_and_renderings_that_it_names() -> None:
    for exemption in (
        Exemption(("memory-limit",), ".*", "…"),
        Exemption(("cpu-limit",), "Deployment/.*-worker", "…"),
        Exemption(("cpu-limit",), ".*", "…", renderings="everything"),
    ):
        reported, idle = unexcused([LIMIT], [exemption])
        assert "CPU limit is not set" in reported
        assert idle.startswith("Nothing needs the exemption")
