"""Computes the status of a JobSchedule. A pure function.

Conditions: Ready (the spec is accepted and synced; independent of runs), Healthy (no run is dead and the last one went
well; does not affect Ready), Suspended, Stalled (the spec must be changed). docs/conditions.md lists every reason.
kstatus and Argo CD treat only Stalled as failed: a failed run is not a failed deployment.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, timedelta
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, cast, get_args

from wakeboard.schedules.scheduler import TOO_LATE
from wakeboard.text.facts import did_you_mean
from wakeboard.text.humanize import counted, expectation, reason_in_words, runs_after_words
from wakeboard.text.redact import redact
from wakeboard.text.sanitize import one_line
from wakeboard.ticks.catch_up import CatchUpPolicy, skip_reason
from wakeboard_operator.status_models import Condition, JobScheduleStatus, LastAction, LastFailure, LastRun

if TYPE_CHECKING:
    from datetime import datetime

    from wakeboard.views.queries.schedule_state import ScheduleState
    from wakeboard_operator.problems import ScheduleProblem
    from wakeboard_operator.resources import Resource
    from wakeboard_operator.status_models import Action, Result

UNKNOWN_TYPE_AFTER: Final = timedelta(minutes=10)
RECHECK_AFTER: Final = timedelta(minutes=1)
WENT_BACK: Final = (
    "The database went back in time, or may have, so a run may be missing or run twice: see"
    " `wakeboard check --after-restore`."
)

# Why ticks are skipped that were late, or missed in an outage. The other reasons say that nothing should have run.
LATE_REASONS: Final = frozenset({TOO_LATE, *map(skip_reason, get_args(CatchUpPolicy))})

ConditionStatus = Literal["True", "False", "Unknown"]


class _Answer(NamedTuple):
    status: ConditionStatus
    reason: str
    message: str


class Owner(NamedTuple):
    """The database that runs a schedule, and the release of the operator that writes the status."""

    installation: str
    release: str | None = None


def status_of(
    resource: Resource,
    problem: ScheduleProblem | None,
    facts: ScheduleState | None,
    before: JobScheduleStatus | None,
    owner: Owner,
    now: datetime,
    errors: Literal["full", "type-only"] = "full",
) -> JobScheduleStatus:
    """The status that `resource` should have. `facts` None: it is not in the database. `now`: its clock.

    `errors` type-only: an error's message, which a handler writes, is left out.
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
        next_run_time=None
        if facts.suspended or facts.paused or facts.schedule_error or facts.circuit_opened_at
        else _to_seconds(facts.next_run_at),
        waiting_for=facts.waiting_for,
        last_run=_last_run(facts),
        last_success_time=_to_seconds(facts.last_success_at),
        last_failure=_last_failure(facts),
        running=facts.running,
        queued=facts.queued,
        failed=facts.failed,
        dead=facts.dead,
        oldest_dead_time=_to_seconds(facts.oldest_dead_at),
        last_action=_last_action(facts),
        installation=owner.installation,
        release=owner.release,
    )


def difference(before: JobScheduleStatus | None, after: JobScheduleStatus) -> Literal["none", "values", "transition"]:
    """Returns how the status changes: in what users wait for (a transition), or only in times and counts (values)."""
    if before == after:
        return "none"
    if before is None or _transition_key(before) != _transition_key(after):
        return "transition"
    return "values"


def next_change_at(facts: ScheduleState, now: datetime) -> datetime | None:
    """Returns when the status may change although nothing happens to the schedule or its runs, or None.

    Only one condition depends on the time: whether a worker knows the job type and offers what the payload names. While
    none has ever done so, the status of a schedule that is not suspended is checked every minute. If a run waits, it is
    checked when no worker has known the type for ten minutes, and from then on every minute, because a worker may
    register the type and still not claim the run.
    """
    is_missing = facts.type_known_at is None or facts.missing_offer is not None
    recheck_at = now + RECHECK_AFTER if is_missing and not facts.suspended else None
    if not facts.queued or facts.oldest_due_at is None:
        return recheck_at
    changes_at = max(facts.oldest_due_at, facts.type_known_at or facts.oldest_due_at) + UNKNOWN_TYPE_AFTER
    waited_at = changes_at + timedelta(seconds=1) if changes_at >= now else now + RECHECK_AFTER
    return min(waited_at, recheck_at or waited_at)


def _transition_key(status: JobScheduleStatus) -> tuple[object, ...]:
    """The parts whose change is a transition."""
    return (
        status.observed_generation,
        status.accepted_generation,
        [(each.type, each.status, each.reason) for each in status.conditions or []],
        status.dead,
        status.last_run.result if status.last_run else None,
        status.last_failure.run_id if status.last_failure else None,
        status.last_action,
        status.waiting_for,
        status.installation,
        status.release,
    )


# -- conditions --------------------------------------------------------------------------------------------------------


def _ready(resource: Resource, problem: ScheduleProblem | None, facts: ScheduleState | None) -> _Answer:
    if problem is not None:
        kept = f" Generation {facts.generation} stays in force." if facts else ""
        return _Answer("False", problem.reason, problem.message + kept)
    if facts is None or facts.uid != resource.uid or facts.generation < resource.generation:
        return _Answer("False", "Syncing", "Waiting for the next sync to the database.")
    if facts.schedule_error:
        return _Answer("False", "TicksUnknown", f"Its next run cannot be computed: {facts.schedule_error}")
    return _Answer("True", "Synced", f"Generation {resource.generation} is synced.")


def _stalled(problem: ScheduleProblem | None, facts: ScheduleState | None) -> _Answer:
    if problem is not None:
        return _Answer("True", problem.reason, problem.message)
    if facts is not None and facts.schedule_error:
        return _Answer("True", "TicksUnknown", f"Its next run cannot be computed: {facts.schedule_error}")
    return _Answer("False", "NotStalled", "No errors.")


def _circuit_text(facts: ScheduleState) -> str:
    died = f"Its last {counted(facts.suspend_after_dead or 1, 'run')} died (suspendAfterDead)."
    if facts.circuit_probe_id is not None:
        probe = f"Run {facts.circuit_probe_id} is a probe."
    else:
        probe = f"The first tick after {_to_seconds(facts.circuit_probe_at):%Y-%m-%d %H:%M:%S} UTC is a probe."
    return f"{died} {probe} To continue now: `wakeboard resume schedule {full_name(facts)}`."


def _suspended(problem: ScheduleProblem | None, facts: ScheduleState | None) -> _Answer:  # noqa: PLR0911 - a table
    if facts is None and problem is not None:
        return _Answer("False", "NotInForce", "No valid spec has been synced: it does not run.")
    if facts is not None and facts.paused:
        what = {"all": "everything", "queue": f"queue {facts.queue}", "schedule": "this schedule"}
        why = f" ({facts.pause_reason})" if facts.pause_reason else ""
        paused = what[facts.paused.split(":", 1)[0]]
        message = f"A user has paused {paused} in the database{why}. To continue: `wakeboard resume`."
        return _Answer("True", "PausedInDatabase", message)
    if facts is not None and facts.suspended:
        return _Answer("True", "Suspended", "spec.suspend is true.")
    if facts is not None and facts.circuit_opened_at:
        return _Answer("True", "CircuitOpen", _circuit_text(facts))
    if facts is not None and facts.has_ended:
        return _Answer("False", "Ended", "It has ended: it has no further tick.")
    if facts is not None and facts.runs_after:
        return _Answer("False", "Active", f"Runs are created {runs_after_words(facts.runs_after)}.")
    return _Answer("False", "Active", "Runs are scheduled." if facts and facts.schedule else "Runs are on demand.")


def _healthy(facts: ScheduleState | None, now: datetime) -> _Answer:  # noqa: PLR0911 - a table
    if facts is None:
        return _Answer("Unknown", "NoRuns", "No run has finished yet.")
    if bad := _missed_or_dead(facts):
        return bad
    if _has_no_worker(facts, now):
        return _Answer("False", "NoWorker", _no_worker_text(facts))
    if facts.waiting_for:
        return _Answer("False", "Blocked", facts.waiting_for)
    if facts.failed:
        many = f"{counted(facts.failed, 'run')} {'has' if facts.failed == 1 else 'have'}"
        return _Answer("False", "Retrying", f"{many} failed and will be retried: {_failure_text(facts)}")
    if facts.last_result is None or facts.database_went_back:
        return _unknown(facts)
    if facts.last_reason in LATE_REASONS:
        return _Answer("False", "Skipped", _skipped_text(facts))
    if facts.last_result == "dead":
        return _Answer("False", "LastRunDiscarded", "The last run was dead and has been discarded.")
    if facts.last_result == "succeeded":
        return _Answer("True", "LastRunSucceeded", "The last run succeeded.")
    return _Answer("True", "LastRunEnded", f"The last run was {facts.last_result}.")


def _missed_or_dead(facts: ScheduleState) -> _Answer | None:
    if facts.success_missed_at and facts.expect_success_within_s and not facts.suspended and not facts.paused:
        return _Answer("False", "SuccessMissed", _missed_text(facts, facts.expect_success_within_s))
    if facts.dead:
        many = f"{counted(facts.dead, 'run')} {'is' if facts.dead == 1 else 'are'}"
        return _Answer("False", "DeadRuns", f"{many} dead: see `wakeboard runs --schedule {full_name(facts)}`.")
    return None


def _missed_text(facts: ScheduleState, within_s: int) -> str:
    expected = expectation(within_s, facts.alert_after_missed)
    since = f"{_to_seconds(facts.success_missed_at):%Y-%m-%d %H:%M:%S} UTC"
    return f"Since {since} it has missed {expected}: see `wakeboard explain {full_name(facts)}`."


def _unknown(facts: ScheduleState) -> _Answer:
    if facts.database_went_back:
        return _Answer("Unknown", "DatabaseWentBack", WENT_BACK)
    if facts.queue_known_at is None and not facts.suspended and not facts.paused:
        return _Answer("Unknown", "NoWorker", _no_worker_text(facts))
    return _Answer("Unknown", "NoRuns", "No run has finished yet.")


def _has_no_worker(facts: ScheduleState, now: datetime) -> bool:
    """Whether nothing executes its runs: a run waits in vain, or its workers do not know the job type."""
    if facts.paused:
        return False
    if facts.queued and facts.oldest_due_at is not None and facts.oldest_due_at <= now - UNKNOWN_TYPE_AFTER:
        return facts.type_known_at is None or facts.type_known_at < now - UNKNOWN_TYPE_AFTER
    return not facts.suspended and (_is_type_missing(facts) or _is_offer_missing(facts))


def _is_type_missing(facts: ScheduleState) -> bool:
    """Whether a worker of the queue has registered since the schedule was last changed, and none knows the job type.

    A pool may start only when a run is due, so a worker that registered before says nothing. A rollout may replace the
    workers after it has applied the schedule: it has ten minutes, unless the name resembles that of a known job type.
    """
    if facts.type_known_at is not None or facts.queue_known_at is None:
        return False
    if facts.last_success_at is not None and facts.last_success_at > facts.updated_at:
        return False  # by a pool that has not started for so long that its job types are forgotten
    rollout = timedelta() if facts.type_meant else UNKNOWN_TYPE_AFTER
    return facts.queue_known_at > facts.updated_at + rollout


def _is_offer_missing(facts: ScheduleState) -> bool:
    """Whether a worker of the job type has registered since the schedule was last changed, and none offers this."""
    return (
        facts.missing_offer is not None and facts.type_known_at is not None and facts.type_known_at > facts.updated_at
    )


def _no_worker_text(facts: ScheduleState) -> str:
    if facts.missing_offer is not None:
        return facts.missing_offer
    if facts.queue_known_at is None:
        return f"No worker of queue {facts.queue} has been seen yet."
    known = f"since {facts.type_known_at:%Y-%m-%d %H:%M} UTC" if facts.type_known_at else "yet"
    text = f"No worker of queue {facts.queue} has known job type {facts.job_type} {known}."
    return f"{text}{did_you_mean(facts.type_meant)}"


def _skipped_text(facts: ScheduleState) -> str:
    tick, success = _to_seconds(facts.last_scheduled_for), _to_seconds(facts.last_success_at)
    which = f"The tick of {tick:%Y-%m-%d %H:%M:%S} UTC" if tick else "The last run"
    since = f"The last success was at {success:%Y-%m-%d %H:%M:%S} UTC." if success else "No recent run has succeeded."
    return f"{which} was skipped: {reason_in_words(facts.last_reason, 'skipped')}. {since}"


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


def _to_seconds(moment: datetime | None) -> datetime | None:
    """Kubernetes writes times to the second."""
    return moment.astimezone(UTC).replace(microsecond=0) if moment else None


def _last_run(facts: ScheduleState) -> LastRun | None:
    finished = _to_seconds(facts.last_finished_at)
    if facts.last_run_id is None or finished is None:
        return None
    return LastRun(
        id=facts.last_run_id,
        scheduled_for=_to_seconds(facts.last_scheduled_for),
        finished_at=finished,
        result=cast("Result", facts.last_result),
    )


def _last_failure(facts: ScheduleState) -> LastFailure | None:
    at = _to_seconds(facts.last_failure_at)
    if at is None or facts.last_failure_run_id is None:
        return None
    return LastFailure(
        time=at,
        reason=facts.last_failure_type or "Error",
        message=facts.last_failure_message or f"See `wakeboard run {facts.last_failure_run_id}`.",
        run_id=facts.last_failure_run_id,
    )


def _last_action(facts: ScheduleState) -> LastAction | None:
    at = _to_seconds(facts.last_action_at)
    if at is None or facts.last_action_token is None:
        return None
    return LastAction(
        action=cast("Action", facts.last_action),
        token=facts.last_action_token,
        time=at,
        result=facts.last_action_result or "",
    )


def _failure_text(facts: ScheduleState) -> str:
    parts = facts.last_failure_type or "Error", facts.last_failure_message
    return one_line(redact(": ".join(part for part in parts if part), 300, "start"))[:300]


def full_name(facts: ScheduleState) -> str:
    """`namespace/name`."""
    return f"{facts.namespace}/{facts.name}"
