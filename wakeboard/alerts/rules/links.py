"""Which page of the board shows what is behind an alert. No I/O, no clock."""

from __future__ import annotations

from datetime import UTC, timedelta
from typing import TYPE_CHECKING, Any, Final

from wakeboard.alerts.rules.alert_rules import seconds_of
from wakeboard.views.rules.run_search import quoted

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

_STATUS: Final = {
    "failures": "failed,dead",
    "dead": "dead",
    "late": "queued",
    "backlog": "queued",
    "noWorker": "queued",
}


def page_behind(rule: Mapping[str, Any], opened_at: datetime) -> tuple[str, dict[str, str]]:
    """The path inside the board, and its parameters. `rule`: as `definition_of` returns it.

    Runs for most conditions, schedules for noSuccessFor, and figures by job type for durationOver.
    """
    where: Mapping[str, str] = rule.get("where", {})
    schedule = where.get("schedule", "")
    if "durationOver" in rule:
        return _figures(where)
    if "circuitOpen" in rule and not _is_exact(schedule):
        path, query = _schedules(where)
        return path, {**query, "state": "circuit open"}
    if "noSuccessFor" in rule or "circuitOpen" in rule or ("late" in rule and _is_exact(schedule)):
        return _schedules(where)
    condition = next((name for name in _STATUS if name in rule), "")
    terms = [f"status:{_STATUS[condition]}"] if condition else []
    terms += [
        f"{name}:{where[field] if '*' in where[field] else quoted(where[field])}"
        for name, field in (("type", "jobType"), ("schedule", "schedule"), ("queue", "queue"))
        if field in where
    ]
    if "within" in rule:
        since = opened_at.astimezone(UTC) - timedelta(seconds=seconds_of(rule["within"]))
        terms.append(f"since:{since:%Y-%m-%dT%H:%M}")
    return "/runs", {"q": " ".join(terms)}


def _figures(where: Mapping[str, str]) -> tuple[str, dict[str, str]]:
    for field, by in (("jobType", "type"), ("schedule", "schedule"), ("queue", "queue")):
        if field in where:
            return "/performance", {"by": by, "q": where[field].partition("*")[0]}
    return "/performance", {"by": "type"}


def _schedules(where: Mapping[str, str]) -> tuple[str, dict[str, str]]:
    schedule = where.get("schedule", "")
    if _is_exact(schedule):
        return f"/schedules/{schedule}", {}
    namespace, slash, name = schedule.partition("/")
    query = {
        "namespace": namespace if slash and "*" not in namespace else "",
        "q": max(name.split("*"), key=len) if slash else "",
        "job_type": where.get("jobType", ""),
        "queue": where.get("queue", ""),
    }
    return "/schedules", {name: value for name, value in query.items() if value and "*" not in value}


def _is_exact(schedule: str) -> bool:
    return "/" in schedule and "*" not in schedule
