"""From what is known to the status document: a pure function.

Conditions: Ready (the spec is accepted and stands in the database; never how runs go), Healthy (no run is dead and the
last one went well; never feeds Ready), Suspended, Stalled (somebody must change the spec). docs/conditions.md lists
every reason. kstatus and Argo CD read only Stalled as failed: a schedule whose run failed is no failed deployment.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, timedelta
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, cast

from wakeboard.rules.humanize import counted
from wakeboard.rules.redact import redact
from wakeboard.rules.sanitize import one_line
from wakeboard_operator.status_models import Condition, JobScheduleStatus, LastAction, LastFailure, LastRun

if TYPE_CHECKING:
    from datetime import datetime

    from wakeboard.store.queries.schedule_state import ScheduleState
    from wakeboard_operator.problems import Problem
    from wakeboard_operator.resources import Resource
    from wakeboard_operator.status_models import Action, Result

UNKNOWN_TYPE_AFTER: Final = timedelta(minutes=10)
LOOK_AGAIN_AFTER: Final = timedelta(minutes=1)

Word = Literal["True", "False", "Unknown"]


class _Answer(NamedTuple):
    status: Word
    reason: str
    message: str


class Owner(NamedTuple):
    """The database that runs a schedule, and the release of the operator that writes the status."""

    installation: str
    release: str | None = None


def status_of(
    resource: Resource,
    problem: Problem | None,
    facts: ScheduleState | None,
    before: JobScheduleStatus | None,
    owner: Owner,
    now: datetime,
    errors: Literal["full", "type-only"] = "full",
) -> JobScheduleStatus:
    """The status that `resource` should have. `facts` None: it is not in the database. `now`: its clock.

    `errors` type-only: an error's message, which a handler writes, stays in the database.
    """
    if facts is not None and errors == "type-only":
        facts = replace(facts, last_failure_message=None)
    answers = {
        "Ready": _ready(resource, problem, facts),
        "Healthy": _healthy(facts, now),
        "Suspended": _suspended(problem, facts),
        "Stalled": _stalled(problem, facts),
    }
    if facts is None:
        return JobScheduleStatus(
            observed_generation=resource.generation,
            accepted_generation=None,
            conditions=_conditions(answers, resource.generation, before, now),
            installation=owner.installation,
            release=owner.release,
        )
    return JobScheduleStatus(
        observed_generation=resource.generation,
        accepted_generation=facts.generation,
        conditions=_conditions(answers, resource.generation, before, now),
        next_run_time=None if facts.suspended or facts.paused or facts.schedule_error else _second(facts.next_run_at),
        last_run=_last_run(facts),
        last_success_time=_second(facts.last_success_at),
        last_failure=_last_failure(facts),
        running=facts.running,
        queued=facts.queued,
        failed=facts.failed,
        dead=facts.dead,
        oldest_dead_time=_second(facts.oldest_dead_at),
        last_action=_last_action(facts),
        installation=owner.installation,
        release=owner.release,
    )


def difference(before: JobScheduleStatus | None, after: JobScheduleStatus) -> Literal["none", "moving", "transition"]:
    """How much it matters that the status changes: what people wait for goes out at once, moving figures need not."""
    if before == after:
        return "none"
    if before is None or _still(before) != _still(after):
        return "transition"
    return "moving"


def changes_by_itself_at(facts: ScheduleState, now: datetime) -> datetime | None:
    """When the status may be another though nothing happens to the schedule or its runs; None: never.

    Only one condition knows the time: a run waits, and no worker has known its job type for ten minutes. From then on
    it is looked at every minute, as a worker may learn the type and still have to leave the run (a limit, a pause).
    """
    if not facts.queued or facts.oldest_due_at is None:
        return None
    told_at = max(facts.oldest_due_at, facts.type_known_at or facts.oldest_due_at) + UNKNOWN_TYPE_AFTER
    return told_at + timedelta(seconds=1) if told_at >= now else now + LOOK_AGAIN_AFTER


def _still(status: JobScheduleStatus) -> tuple[object, ...]:
    """What is a transition when it changes."""
    return (
        status.observed_generation,
        status.accepted_generation,
        [(each.type, each.status, each.reason) for each in status.conditions or []],
        status.dead,
        status.last_run.result if status.last_run else None,
        status.last_failure.run_id if status.last_failure else None,
        status.last_action,
        status.installation,
        status.release,
    )


# -- conditions --------------------------------------------------------------------------------------------------------


def _ready(resource: Resource, problem: Problem | None, facts: ScheduleState | None) -> _Answer:
    if problem is not None:
        kept = f" Generation {facts.generation} stays in force." if facts else ""
        return _Answer("False", problem.reason, problem.message + kept)
    if facts is None or facts.uid != resource.uid or facts.generation < resource.generation:
        return _Answer("False", "Syncing", "It is about to be written to the database.")
    if facts.schedule_error:
        return _Answer("False", "TicksUnknown", f"Its next run cannot be computed: {facts.schedule_error}")
    return _Answer("True", "Synced", f"Generation {resource.generation} stands in the database.")


def _stalled(problem: Problem | None, facts: ScheduleState | None) -> _Answer:
    if problem is not None:
        return _Answer("True", problem.reason, problem.message)
    if facts is not None and facts.schedule_error:
        return _Answer("True", "TicksUnknown", f"Its next run cannot be computed: {facts.schedule_error}")
    return _Answer("False", "NotStalled", "Nothing is in its way.")


def _suspended(problem: Problem | None, facts: ScheduleState | None) -> _Answer:
    if facts is None and problem is not None:
        return _Answer("False", "NotInForce", "No spec of it is in force: it does not run.")
    if facts is not None and facts.paused:
        what = {"all": "everything", "queue": f"queue {facts.queue}", "schedule": "this schedule"}
        why = f" ({facts.pause_reason})" if facts.pause_reason else ""
        paused = what[facts.paused.split(":", 1)[0]]
        message = f"Somebody has paused {paused} in the database{why}: `wakeboard resume` ends it."
        return _Answer("True", "PausedInDatabase", message)
    if facts is not None and facts.suspended:
        return _Answer("True", "Suspended", "spec.suspend is true: no runs are made by schedule.")
    return _Answer(
        "False", "Active", "Runs are made by schedule." if facts and facts.schedule else "It runs on demand."
    )


def _healthy(facts: ScheduleState | None, now: datetime) -> _Answer:  # noqa: PLR0911 - a table
    if facts is None:
        return _Answer("Unknown", "NoRuns", "It has not run yet.")
    if facts.dead:
        many = f"{counted(facts.dead, 'run')} {'was' if facts.dead == 1 else 'were'}"
        return _Answer("False", "DeadRuns", f"{many} given up: see `wakeboard runs --schedule {full_name(facts)}`.")
    if _nobody_knows_the_type(facts, now):
        known = f"since {facts.type_known_at:%Y-%m-%d %H:%M} UTC" if facts.type_known_at else "yet"
        return _Answer(
            "False", "NoWorker", f"No worker of queue {facts.queue} has known job type {facts.job_type} {known}."
        )
    if facts.failed:
        many = f"{counted(facts.failed, 'run')} {'has' if facts.failed == 1 else 'have'}"
        return _Answer("False", "Retrying", f"{many} failed and will be tried again: {_said(facts)}")
    if facts.last_result is None:
        return _Answer("Unknown", "NoRuns", "It has not run yet.")
    if facts.last_result == "dead":
        return _Answer("False", "LastRunDiscarded", "The run that ended last was given up and discarded.")
    if facts.last_result == "succeeded":
        return _Answer("True", "LastRunSucceeded", "The run that ended last succeeded.")
    return _Answer("True", "LastRunEnded", f"The run that ended last was {facts.last_result}.")


def _nobody_knows_the_type(facts: ScheduleState, now: datetime) -> bool:
    """Something waits for a worker, and none that serves its queue has known its job type for ten minutes."""
    if not facts.queued or facts.oldest_due_at is None or facts.oldest_due_at > now - UNKNOWN_TYPE_AFTER:
        return False
    return facts.type_known_at is None or facts.type_known_at < now - UNKNOWN_TYPE_AFTER


def _conditions(
    answers: dict[str, _Answer], generation: int, before: JobScheduleStatus | None, now: datetime
) -> list[Condition]:
    known = {each.type: each for each in (before.conditions or [])} if before else {}
    made: list[Condition] = []
    for name, answer in answers.items():
        old = known.get(cast("Literal['Ready', 'Healthy', 'Suspended', 'Stalled']", name))
        since = old.last_transition_time if old and old.status == answer.status else now.replace(microsecond=0)
        made.append(
            Condition(
                type=cast("Literal['Ready', 'Healthy', 'Suspended', 'Stalled']", name),
                status=answer.status,
                observed_generation=generation,
                last_transition_time=since,
                reason=answer.reason,
                message=answer.message,
            )
        )
    return made


# -- values ------------------------------------------------------------------------------------------------------------


def _second(moment: datetime | None) -> datetime | None:
    """Kubernetes writes times to the second."""
    return moment.astimezone(UTC).replace(microsecond=0) if moment else None


def _last_run(facts: ScheduleState) -> LastRun | None:
    finished = _second(facts.last_finished_at)
    if facts.last_run_id is None or finished is None:
        return None
    return LastRun(
        id=facts.last_run_id,
        scheduled_for=_second(facts.last_scheduled_for),
        finished_at=finished,
        result=cast("Result", facts.last_result),
    )


def _last_failure(facts: ScheduleState) -> LastFailure | None:
    at = _second(facts.last_failure_at)
    if at is None or facts.last_failure_run_id is None:
        return None
    return LastFailure(
        time=at,
        reason=facts.last_failure_type or "Error",
        message=facts.last_failure_message or f"See `wakeboard run {facts.last_failure_run_id}`.",
        run_id=facts.last_failure_run_id,
    )


def _last_action(facts: ScheduleState) -> LastAction | None:
    at = _second(facts.last_action_at)
    if at is None or facts.last_action_token is None:
        return None
    return LastAction(
        action=cast("Action", facts.last_action),
        token=facts.last_action_token,
        time=at,
        result=facts.last_action_result or "",
    )


def _said(facts: ScheduleState) -> str:
    parts = facts.last_failure_type or "Error", facts.last_failure_message
    return one_line(redact(": ".join(part for part in parts if part)))[:300]


def full_name(facts: ScheduleState) -> str:
    """`namespace/name`."""
    return f"{facts.namespace}/{facts.name}"
