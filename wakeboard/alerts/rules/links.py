"""Which page of the board shows what is behind an alert. No I/O, no clock.

A page is a function from a rule, as `definition_of` returns it, and the moment when its alert opened, to the path
inside the board and its parameters.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, TypeAlias

from wakeboard.text.durations import parse_duration
from wakeboard.views.rules.run_search import quoted

Link: TypeAlias = tuple[str, dict[str, str]]
LinkTo: TypeAlias = Callable[[Mapping[str, Any], datetime], Link]


def runs(status: str = "") -> LinkTo:
    """Those that the rule applies to with this status, not before its `within`."""

    def link(rule: Mapping[str, Any], opened_at: datetime) -> Link:
        where: Mapping[str, str] = rule.get("where", {})
        terms = [f"status:{status}"] if status else []
        terms += [
            f"{name}:{where[field] if '*' in where[field] else quoted(where[field])}"
            for name, field in (("type", "jobType"), ("schedule", "schedule"), ("queue", "queue"))
            if field in where
        ]
        if "within" in rule:
            since = opened_at.astimezone(UTC) - timedelta(seconds=parse_duration(rule["within"]) or 0)
            terms.append(f"since:{since:%Y-%m-%dT%H:%M}")
        return "/runs", {"q": " ".join(terms)}

    return link


def figures(rule: Mapping[str, Any], _: datetime) -> Link:
    """The durations of the job types, schedules or queues that the rule applies to."""
    where: Mapping[str, str] = rule.get("where", {})
    for field, by in (("jobType", "type"), ("schedule", "schedule"), ("queue", "queue")):
        if field in where:
            return "/performance", {"by": by, "q": where[field].partition("*")[0]}
    return "/performance", {"by": "type"}


def overview(_: Mapping[str, Any], __: datetime) -> Link:
    """The board's first page."""
    return "/", {}


def schedules(state: str = "", health: str = "") -> LinkTo:
    """Those that the rule applies to, in this state; the page of its only one, whatever its state."""

    def link(rule: Mapping[str, Any], _: datetime) -> Link:
        where: Mapping[str, str] = rule.get("where", {})
        schedule = where.get("schedule", "")
        namespace, slash, name = schedule.partition("/")
        if slash and "*" not in schedule:
            return f"/schedules/{schedule}", {}
        query = {
            "namespace": namespace if slash and "*" not in namespace else "",
            "q": max(name.split("*"), key=len) if slash else "",
            "job_type": where.get("jobType", ""),
            "queue": where.get("queue", ""),
            "state": state,
            "health": health,
        }
        return "/schedules", {name: value for name, value in query.items() if value and "*" not in value}

    return link


def schedule_or(other: LinkTo) -> LinkTo:
    """The page of the only schedule that the rule applies to; without one, `other`."""

    def link(rule: Mapping[str, Any], opened_at: datetime) -> Link:
        schedule = rule.get("where", {}).get("schedule", "")
        is_one = "/" in schedule and "*" not in schedule
        return (schedules() if is_one else other)(rule, opened_at)

    return link
