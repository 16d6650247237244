"""Argo CD's Lua and kstatus' generic rules read every situation alike, and only what Git must change is a failure."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lupa
import pytest
import yaml

from tests.operator.test_status import SITUATIONS

FOLDER = Path(__file__).resolve().parents[2] / "deploy" / "argocd"
MERGED = yaml.safe_load((FOLDER / "argocd-cm.yaml").read_text())["data"]
HEALTH = MERGED["resource.customizations.health.wakeboard.dev_JobSchedule"]
ACTIONS = yaml.safe_load(MERGED["resource.customizations.actions.wakeboard.dev_JobSchedule"])


def run_lua(script: str, document: dict[str, Any]) -> Any:
    """What the script returns, given the resource as `obj`."""
    lua: Any = lupa.LuaRuntime(unpack_returned_tuples=True)
    lua.globals()["obj"] = lua.table_from(document, recursive=True)
    return as_python(lua.execute(script))


def as_python(value: Any) -> Any:
    kind: Any = lupa.lua_type(value)
    return {key: as_python(inner) for key, inner in value.items()} if kind == "table" else value


def kstatus(document: dict[str, Any]) -> str:
    """The generic rules of kstatus, for a resource that it knows nothing special about.

    Source: sigs.k8s.io/cli-utils, package kstatus/status, function Compute: observedGeneration, then the conditions
    Stalled (Failed), Reconciling (InProgress) and Ready (False or Unknown: InProgress); else Current.
    """
    status: dict[str, Any] = document.get("status") or {}
    if "observedGeneration" in status and status["observedGeneration"] != document["metadata"]["generation"]:
        return "InProgress"
    conditions: list[dict[str, str]] = status.get("conditions", [])
    found = {each["type"]: each["status"] for each in conditions}
    if found.get("Reconciling") == "True":
        return "InProgress"
    if found.get("Stalled") == "True":
        return "Failed"
    if found.get("Ready") in ("False", "Unknown"):
        return "InProgress"
    return "Current"


def document(situation: str) -> dict[str, Any]:
    status = SITUATIONS[situation][0].model_dump(mode="json", by_alias=True, exclude_none=True)
    return {"metadata": {"generation": 3, "name": "report"}, "spec": {"jobType": "ping"}, "status": status}


BOTH = {"Degraded": "Failed", "Progressing": "InProgress", "Healthy": "Current", "Suspended": "Current"}


@pytest.mark.parametrize("situation", SITUATIONS)
def test_argo_cd_and_kstatus_agree(situation: str) -> None:
    health = run_lua(HEALTH, document(situation))
    assert BOTH[health["status"]] == kstatus(document(situation))
    assert health["message"]


@pytest.mark.parametrize(
    ("situation", "wanted"),
    [
        ("dead", "Healthy"),
        ("is tried again", "Healthy"),
        ("no worker knows the job type", "Healthy"),
        ("suspended", "Suspended"),
        ("paused", "Suspended"),
        ("never valid", "Degraded"),
        ("an invalid edit", "Degraded"),
        ("uncomputable", "Degraded"),
        ("an edit on its way", "Progressing"),
    ],
)
def test_a_run_that_failed_is_no_failed_deployment(situation: str, wanted: str) -> None:
    assert run_lua(HEALTH, document(situation))["status"] == wanted


@pytest.mark.parametrize(
    "status", [None, {"observedGeneration": -1}, {"observedGeneration": 2}, {"observedGeneration": 4}]
)
def test_a_resource_that_no_operator_has_observed_is_in_progress(status: dict[str, Any] | None) -> None:
    fresh = {"metadata": {"generation": 3}, "spec": {"jobType": "ping"}, **({"status": status} if status else {})}
    assert run_lua(HEALTH, fresh)["status"] == "Progressing"
    if status:
        assert kstatus(fresh) == "InProgress"


def test_a_dead_run_is_in_the_message_of_a_healthy_resource() -> None:
    assert "2 runs are dead" in run_lua(HEALTH, document("dead"))["message"]


def test_actions_are_offered_when_they_make_sense() -> None:
    offered = run_lua(ACTIONS["discovery.lua"], document("dead"))
    assert {name: found["disabled"] for name, found in offered.items()} == {
        "run-now": False,
        "retry-dead": False,
        "suspend": False,
        "resume": True,
    }
    assert run_lua(ACTIONS["discovery.lua"], document("new"))["retry-dead"]["disabled"]


def test_actions_do_what_kubectl_would() -> None:
    scripts = {each["name"]: each["action.lua"] for each in ACTIONS["definitions"]}
    assert run_lua(scripts["suspend"], document("new"))["spec"]["suspend"] is True
    assert run_lua(scripts["resume"], document("new"))["spec"]["suspend"] is False
    for action in ("run-now", "retry-dead"):
        token = run_lua(scripts[action], document("new"))["metadata"]["annotations"][f"wakeboard.dev/{action}"]
        assert token.startswith("argocd-20")
