"""Each alert links to a page of the board with what is behind it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from tests.alerts.test_alert_rules import rule_of
from wakeboard.alerts.rules.alert_rules import definition_of
from wakeboard.alerts.rules.conditions import page_behind
from wakeboard.alerts.sender import link_to
from wakeboard.views.rules.run_search import parse_run_search

OPENED = datetime(2026, 11, 22, 12, 30, 9, tzinfo=UTC)

PAGES: list[tuple[dict[str, Any], str]] = [
    ({"dead": 1}, "/runs?q=status%3Adead"),
    (
        {"failures": 10, "within": "60m", "where": {"queue": "billing"}},
        "/runs?q=status%3Afailed%2Cdead+queue%3Abilling+since%3A2026-11-22T11%3A30",
    ),
    ({"backlog": 9, "where": {"jobType": "send_*"}}, "/runs?q=status%3Aqueued+type%3Asend_%2A"),
    ({"noWorker": "3m"}, "/runs?q=status%3Aqueued"),
    ({"late": "5m"}, "/runs?q=status%3Aqueued"),
    ({"late": "5m", "where": {"schedule": "ops/backup"}}, "/schedules/ops/backup"),
    ({"noSuccessFor": "26h", "where": {"schedule": "ops/backup"}}, "/schedules/ops/backup"),
    ({"noSuccessFor": "26h", "where": {"schedule": "ops/backup-*"}}, "/schedules?namespace=ops&q=backup-"),
    ({"noSuccessFor": "26h", "where": {"schedule": "*"}}, "/schedules"),
    ({"circuitOpen": 1}, "/schedules?state=circuit+open"),
    ({"successMissed": 1}, "/schedules?health=failing"),
    ({"databaseWentBack": 1}, "/"),
    ({"circuitOpen": 1, "where": {"schedule": "ops/backup"}}, "/schedules/ops/backup"),
    ({"durationOver": "3 x p95"}, "/performance?by=type"),
    ({"durationOver": "3 x p95", "where": {"jobType": "send_*"}}, "/performance?by=type&q=send_"),
]


@pytest.mark.parametrize(("fields", "page"), PAGES)
def test_an_alert_links_to_what_is_behind_it(fields: dict[str, Any], page: str):
    path, query = page_behind(definition_of(rule_of(**fields)), OPENED)
    assert link_to("https://jobs.example.com/tools", path, query) == f"https://jobs.example.com/tools{page}"
    assert not parse_run_search(query.get("q", "") if path == "/runs" else "").problem
    assert not link_to("", path, query)
