"""The limits of the chart's values arrive in the operator, which declares them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.chart.rendering import NotRendered, environment, named, pod_specs, rendered
from wakeboard.limits.file import load_limit_file

if TYPE_CHECKING:
    from pathlib import Path

LIMITS: dict[str, Any] = {
    "openai-api": {"rate": "60/minute", "burst": 1_000_000, "atOnce": 0},
    "printers/a": {"atOnce": 1_000_000},
    "5": {"rate": "1/s"},
}


def test_the_mounted_limits_are_valid_and_those_of_the_values(tmp_path: Path):
    documents = rendered({"limits": LIMITS})
    file = tmp_path / "limits.yaml"
    file.write_text(named(documents, "ConfigMap", "wakeboard-limits")["data"]["limits.yaml"])
    openai = {"key": "openai-api", "max_running": 0, "rate_count": 60, "rate_period_s": 60, "rate_burst": 1_000_000}
    five = {"key": "5", "max_running": None, "rate_count": 1, "rate_period_s": 1, "rate_burst": 1}
    no_rate = dict.fromkeys(("rate_count", "rate_period_s", "rate_burst"))
    printers = {"key": "printers/a", "max_running": 1_000_000, **no_rate}
    assert load_limit_file(file).rows() == [five, openai, printers]


def test_only_the_operator_reads_it():
    pods = dict(pod_specs(rendered({"limits": LIMITS, "pools": {"default": {}}})))
    for name, pod in pods.items():
        container, is_operator = pod["containers"][0], name == "Deployment/wakeboard-operator"
        assert ("WAKEBOARD_LIMITS_FILE" in environment(container)) == is_operator
        assert ("limits" in {each["name"] for each in container["volumeMounts"]}) == is_operator


def test_without_limits_there_is_no_file():
    documents = rendered({})
    assert not [each for each in documents if each["kind"] == "ConfigMap" and "limits" in each["metadata"]["name"]]
    for pod in dict(pod_specs(documents)).values():
        assert "WAKEBOARD_LIMITS_FILE" not in environment(pod["containers"][0])


@pytest.mark.parametrize("limit", [{}, {"burst": 0}, {"atOnce": -1}, {"rate": 60}, {"per": "minute"}])
def test_helm_refuses_what_is_no_limit(limit: dict[str, Any]):
    with pytest.raises(NotRendered, match="limits"):
        rendered({"limits": {"api": limit}})
