"""Linter findings are reported unless an exemption covers them; `make audit` reports advisories of the registries."""

from __future__ import annotations

import shutil
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tools import check_repo
from tools.audit import python_packages, summary
from tools.chart_exceptions import Exemption, Finding, unexcused

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

LIMIT = Finding("kube-score", "cpu-limit", "default", "Deployment/wakeboard-operator", "CPU limit is not set")


def test_a_finding_without_a_reason_is_reported_once_with_its_place() -> None:
    elsewhere = replace(LIMIT, rendering="pools")
    reported = "Deployment/wakeboard-operator: CPU limit is not set (cpu-limit) in default, pools"
    assert unexcused([elsewhere, LIMIT, LIMIT], []) == [reported]


def test_a_reason_holds_for_the_rules_objects_and_renderings_that_it_names() -> None:
    for exemption in (
        Exemption(("memory-limit",), ".*", "…"),
        Exemption(("cpu-limit",), "Deployment/.*-worker", "…"),
        Exemption(("cpu-limit",), ".*", "…", renderings="everything"),
    ):
        reported, idle = unexcused([LIMIT], [exemption])
        assert "CPU limit is not set" in reported
        assert idle.startswith("Nothing needs the exemption")


VULNERABLE: dict[str, Any] = {
    "name": "aiohttp",
    "version": "3.0",
    "vulns": [{"id": "CVE-1", "fix_versions": ["3.1"], "aliases": []}],
}
FINE: dict[str, Any] = {"name": "rich", "version": "15.0", "vulns": []}
UNKNOWN = {"name": "kopf", "skip_reason": "Dependency not found"}


def test_an_advisory_is_named_with_its_fix_and_fails_the_audit():
    audited = python_packages({"dependencies": [VULNERABLE, FINE, UNKNOWN]}, "worker.txt")
    lines, code = summary([audited])
    assert code == 1
    assert lines[0] == "worker.txt: aiohttp 3.0 has CVE-1; fixed in 3.1."
    assert (audited.compared, audited.not_compared) == (2, 1)


def test_a_file_of_another_project_that_was_changed_is_a_finding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    changed = tmp_path / "vendor"
    shutil.copytree(check_repo.VENDORED, changed)
    monkeypatch.setattr(check_repo, "VENDORED", changed)
    assert check_repo.vendored_files() == []
    (changed / "htmx.min.js").write_text("changed")
    (changed / "other.js").write_text("")
    assert len(check_repo.vendored_files()) == 2
