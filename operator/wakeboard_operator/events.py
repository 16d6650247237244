"""Events in `kubectl describe`: one for each transition of a condition, a dead run and a finished action."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from wakeboard_operator.status_models import Condition, JobScheduleStatus


class ScheduleEvent(NamedTuple):
    """One event. `warning`: its type is Warning, not Normal."""

    reason: str
    message: str
    warning: bool = False


def events_between(before: JobScheduleStatus | None, after: JobScheduleStatus) -> list[ScheduleEvent]:
    """Returns the events for a change of the status. The first status gives Synced or the problem."""
    old = {each.type: each for each in (before.conditions or [])} if before else {}
    events: list[ScheduleEvent] = []
    for now in after.conditions or []:
        was = old.get(now.type)
        if was is None or was.status != now.status:
            events += _of_condition(now, was.status if was else None)
    dead_before = (before.dead or 0) if before else 0
    if (after.dead or 0) > dead_before and after.last_failure is not None:
        failure = after.last_failure
        why = f"{failure.reason}: {failure.message}" if failure.message else failure.reason
        events.append(ScheduleEvent("RunDead", f"Run {failure.run_id} is dead: {why}", warning=True))
    if after.last_action is not None and (before is None or before.last_action != after.last_action):
        action = after.last_action
        events.append(ScheduleEvent("ActionDone", f"{action.action} {action.token}: {action.result}"))
    return events


def _of_condition(now: Condition, was: str | None) -> list[ScheduleEvent]:  # noqa: PLR0911 - a table
    match now.type, now.status:
        case "Ready", "True":
            return [ScheduleEvent(now.reason, now.message)]
        case "Stalled", "True":
            return [ScheduleEvent(now.reason, now.message, warning=True)]
        case "Stalled", "False" if was == "True":
            return [ScheduleEvent(now.reason, now.message)]
        case "Suspended", "True":
            return [ScheduleEvent(now.reason, now.message, warning=now.reason == "CircuitOpen")]
        case "Suspended", "False" if was == "True":
            return [ScheduleEvent("Resumed", now.message)]
        case "Healthy", "False" if now.reason in {"NoWorker", "Skipped"}:
            return [ScheduleEvent(now.reason, now.message, warning=True)]
        case "Healthy", "True" if was == "False":
            return [ScheduleEvent("Recovered", now.message)]
        case _:
            return []
