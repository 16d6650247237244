"""What the chart says and another file says too is the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.chart.rendering import CHART, named, rendered
from tools.chart_values import Uncommented, read_values
from tools.generate_chart_schema import schema
from wakeboard import __version__

ROOT = Path(__file__).resolve().parents[2]
Rule = tuple[tuple[str, ...], ...]


def rules(role: dict[str, Any]) -> set[Rule]:
    parts = ("apiGroups", "resources", "resourceNames", "verbs")
    return {tuple(tuple(sorted(rule.get(part, []))) for part in parts) for rule in role["rules"]}


def test_the_operators_rights_are_those_of_deploy() -> None:
    by_hand = yaml.safe_load_all((ROOT / "deploy" / "rbac.yaml").read_text())
    wanted = {rule for each in by_hand if each["kind"] == "ClusterRole" for rule in rules(each)}
    assert rules(named(rendered({}), "ClusterRole", "wakeboard-operator:jobs")) == wanted


def test_the_definition_is_that_of_crds() -> None:
    name = "jobschedules.wakeboard.dev"
    by_hand = yaml.safe_load((ROOT / "crds" / f"{name}.yaml").read_text())
    assert named(rendered({}), "CustomResourceDefinition", name)["spec"] == by_hand["spec"]


def test_the_chart_installs_this_release() -> None:
    assert yaml.safe_load((CHART / "Chart.yaml").read_text())["appVersion"] == __version__


def test_every_value_has_a_comment_and_a_place_in_the_schema() -> None:
    properties = schema()["properties"]
    for value in (leaf for top in read_values() for leaf in top.leaves()):
        place: dict[str, Any] = {"properties": properties}
        for word in value.path:
            place = place["properties"][word]
        assert place["description"], value.name


def test_a_value_without_a_comment_stops_the_generators(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "values.yaml").write_text("# -- A section --\n\n# Said.\nfirst: 1\nsecond: 2\n")
    monkeypatch.setattr("tools.chart_values.CHART", tmp_path)
    with pytest.raises(Uncommented, match="second"):
        read_values()
