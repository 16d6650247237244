"""Formats audit rows: the table of `wakeboard audit`, and lines in the timeline of `wakeboard run`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from wakeboard.cli.support.tables import Column
from wakeboard.cli.support.time_args import in_display_zone
from wakeboard.limits.rules.rate import Rate
from wakeboard.process.display_zone import zone_label
from wakeboard.text.humanize import counted
from wakeboard.text.sanitize import one_line

if TYPE_CHECKING:
    from wakeboard.views.rules.audit_rows import AuditRow

_COLUMNS = (
    Column("WHO", shrinks=True),
    Column("FROM"),
    Column("ACTION"),
    Column("OF", shrinks=True),
    Column("DETAILS", shrinks=True),
    Column("REASON", shrinks=True),
)


def audit_columns() -> list[Column]:
    """The columns of the table. The first one names the zone of its times."""
    return [Column(f"AT ({zone_label()})"), *_COLUMNS]


def audit_cells(row: AuditRow) -> list[str]:
    """The cells of one row."""
    who, details = one_line(row.actor), one_line(_details(row))
    return [in_display_zone(row.at), who, row.source, command_name(row), _object(row), details, one_line(row.reason)]


def action_line(row: AuditRow, run_id: int) -> str:
    """One line about a row of this run: who did what, and why."""
    new_run = f" {row.new_run_id}" if row.new_run_id not in {None, run_id} else ""
    bulk = f", bulk action {row.bulk_action_id}" if row.bulk_action_id is not None else ""
    reason = f": {one_line(row.reason)}" if row.reason else ""
    return f"{one_line(row.in_words(run_id))}{new_run}{bulk}{reason}"


def command_name(row: AuditRow) -> str:
    """The action as the command line writes it: run-now."""
    return one_line(row.action.replace("_", "-"))


def _object(row: AuditRow) -> str:
    """What was changed."""
    if row.run_id is not None:
        parts = (
            row.scope,
            f"run {row.run_id}",
            row.schedule,
        )  # the scope: a key that was released, the receiver of a test
        return one_line(" of ".join(filter(None, parts)))
    if row.bulk_action_id is not None:
        return f"bulk action {row.bulk_action_id}"
    if row.scope and row.scope.startswith("backfill:"):
        return one_line(f"{row.scope.replace(':', ' ')} of {row.schedule}")
    return one_line(row.schedule or row.scope or "")


def _details(row: AuditRow) -> str:
    format_details = _DETAILS.get(row.action)
    return format_details(row.detail) if format_details else _run_details(row)


def _run_details(row: AuditRow) -> str:
    """The answer for a run, its status before, and the run that a replay created. "" for an action on no run."""
    if "answer" not in row.detail:
        return ""
    new_run = f" as run {row.new_run_id}" if row.new_run_id is not None else ""
    before = f", was {row.detail['status_before']}" if "status_before" in row.detail else ""
    payload = ", another payload" if row.detail.get("other_payload") else ""
    return f"{row.detail['answer']}{new_run}{before}{payload}"


_DETAILS: dict[str, Callable[[dict[str, Any]], str]] = {
    "set_limit": lambda detail: f"{_limit(detail['before'])} to {_limit(detail['after'])}",
    "set_rate_limit": lambda detail: f"{_rate(detail['before'])} to {_rate(detail['after'])}",
    "set_retention": lambda detail: f"{_days(detail['before'])} to {_days(detail['after'])}",
    "set_audit_retention": lambda detail: f"{detail['before']} to {counted(detail['after'], 'day')}",
    "set_misfire_grace": lambda detail: f"{detail['before']} s to {detail['after']} s",
    "set_max_schedules": lambda detail: " to ".join(
        "any" if detail[when] is None else str(detail[when]) for when in ("before", "after")
    ),
    "acknowledge_server_changes": lambda detail: counted(detail["count"], "server change"),
    "confirm_removal": lambda detail: counted(detail["count"], "schedule"),
    "create_bulk_action": lambda detail: f"{detail['action']} {counted(detail['total'], 'run')}",
    "create_backfill": lambda detail: counted(detail["total"], "run"),
    "cancel_backfill": lambda detail: f"{counted(detail['cancelled'], 'run')} cancelled",
    "cancel_bulk_action": lambda detail: f"after {detail['done']} of {counted(detail['total'], 'run')}",
}


def _limit(value: int | None) -> str:
    return "default" if value is None else str(value)


def _rate(value: dict[str, int] | None) -> str:
    """A rate limit: 60/minute, burst 10."""
    return f"{Rate(value['count'], value['period_s'])}, burst {value['burst']}" if value else "no rate"


def _days(kept: dict[str, Any]) -> str:
    """Retention of history, keys, dead runs and effects once for ever in days: 30/7/forever/forever."""
    numbers = (kept.get(f"{kind}_days") for kind in ("history", "keys", "dead", "effects"))
    return "/".join("forever" if days is None else str(days) for days in numbers)
