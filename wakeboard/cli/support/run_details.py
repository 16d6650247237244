"""Formats one run for `wakeboard run`: facts, texts, Jobs, attempts, steps, effects, timeline, next commands."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING

from rich.text import Text

from wakeboard.cli.support.advice import advice
from wakeboard.cli.support.audit_table import action_line
from wakeboard.cli.support.run_table import error_line, run_notes, run_of, run_when
from wakeboard.cli.support.tables import UNLIMITED, Column, styled, table
from wakeboard.cli.support.time_args import in_display_zone, with_offset
from wakeboard.engine.attempt_outcomes import FAILURES
from wakeboard.logs.links import link_to_log
from wakeboard.process.display_zone import zone_label
from wakeboard.text.humanize import (
    WAITS_FOR_RUNS_UNTIL,
    counted,
    lasted,
    progress_in_words,
    reason_in_words,
    relative,
    times,
)
from wakeboard.text.mask_json import mask_json, pretty_json
from wakeboard.text.sanitize import one_line, printable

if TYPE_CHECKING:
    from datetime import datetime

    from wakeboard.views.rules.run_detail_rows import AttemptRow, EffectRow, RunDetails, StepRow
    from wakeboard.views.rules.run_rows import StoredRun

MAX_VALUE_LENGTH = 2000  # characters of a payload or a result
HASH_LENGTH = 12  # characters of a spec's hash; --json has all
SCHEDULE_KEY = "schedule:"  # begins the limit keys that wakeboard makes for schedules; users cannot use it
MAX_JOBS = 3  # the last Kubernetes Jobs
MAX_STACK_LINES = 25  # the last lines of the stack

_CREATED_BY = {
    "tick": "by its schedule",
    "manual": "by run-now",
    "replay": "by replay",
    "backfill": "by a backfill",
    "application": "by an application",
}


def run_details(run: RunDetails, now: datetime, width: int = UNLIMITED) -> list[Text]:
    """All lines of the output, at most `width` columns wide where they are tables."""
    return [
        _title(run, now),
        *_facts(run),
        *_value("payload", run.payload),
        *(_value("result", run.result) if run.result not in {None, "null"} else []),
        *_kubernetes_jobs(run),
        *_attempts(run, now, width),
        *_steps(run, width),
        *_effects(run.effects, now, width),
        *_timeline(run),
        *_advice(run),
    ]


def log_link(run: StoredRun) -> str:
    """The address of the run's log in another system; "" without WAKEBOARD_LOG_LINK."""
    template = os.environ.get("WAKEBOARD_LOG_LINK", "")
    return link_to_log(template, run_id=run.id, run_uuid=run.uuid, schedule=run.schedule)


def _title(run: RunDetails, now: datetime) -> Text:
    parts = [run_when(run, now), run_notes(run)]
    return Text(f"run {run.id}  ") + styled(run.status, "".join(f"  {part}" for part in parts if part))


def _facts(run: RunDetails) -> Iterator[Text]:
    tick = f", tick of {with_offset(run.scheduled_for)}" if run.trigger in {"tick", "backfill"} else ""
    facts = {
        "schedule": f"{one_line(run_of(run))}{tick}" if run.schedule else "",
        "spec": _spec(run),
        "created": f"{with_offset(run.created_at)}, {_CREATED_BY.get(run.trigger, run.trigger)}",
        "type": f"{one_line(run.job_type)}, queue {one_line(run.queue)}, priority {run.priority}",
        "uuid": str(run.uuid),
        "attempts": _attempt_limits(run),
        "worker": _worker(run),
        "limit": _limit(run),
        "key": one_line(run.idempotency_key or ""),
        "trace": one_line(run.trace_id),
        "log": one_line(log_link(run)),
        "backfill": ", ".join(each.sentence for each in run.backfilled),
        "start by": f"{with_offset(run.start_before)}" if run.start_before else "",
    }
    for name, fact in facts.items():
        if fact:
            yield Text(f"  {name:<8}  ", "dim") + Text(fact)


def _spec(run: RunDetails) -> str:
    if run.definition_generation is None:
        return ""
    spec = f", spec {run.spec_hash[:HASH_LENGTH]}" if run.spec_hash else ""
    if run.schedule_generation is None:
        spec += " (the schedule was removed)"
    elif run.schedule_generation != run.definition_generation:
        spec += f" (now {run.schedule_generation})"
    return f"generation {run.definition_generation}{spec}"


def _limit(run: RunDetails) -> str:
    """The limit key. A key that wakeboard made for a concurrencyPolicy is shown as the schedule that it limits."""
    key = one_line(run.limit_key or "")
    return f"one run of {one_line(run_of(run))} at once" if key.startswith(SCHEDULE_KEY) else key


def _worker(run: RunDetails) -> str:
    lease = f", lease until {with_offset(run.locked_until)}" if run.locked_until else ""
    return f"{one_line(run.worker)}{lease}" if run.worker else ""


def _attempt_limits(run: RunDetails) -> str:
    backoff = (
        f"{run.backoff_base_s} s" if run.backoff_strategy == "fixed" else f"{run.backoff_base_s}…{run.backoff_cap_s} s"
    )
    parts = [
        f"{run.attempts} of {run.max_attempts}",
        f"timeout {run.timeout_s} s",
        f"{run.backoff_strategy} backoff {backoff}",
        counted(run.crash_count, "crash") if run.crash_count else "",
        f"released {times(run.release_count)}" if run.release_count else "",
    ]
    return ", ".join(part for part in parts if part)


def _value(name: str, stored: str | None) -> Iterator[Text]:
    masked = mask_json(stored or "null")
    text = pretty_json(masked.text)
    lines = printable(text[:MAX_VALUE_LENGTH]).splitlines()
    if len(text) > MAX_VALUE_LENGTH:
        lines.append(f"… {counted(len(text) - MAX_VALUE_LENGTH, 'more character')}; --json shows all")
    if masked.masked:
        lines.append(f"{counted(masked.masked, 'value')} masked because of the key; --json shows it")
    yield Text()
    yield Text(name, "bold")
    yield from (Text(f"  {line}") for line in lines)


def _kubernetes_jobs(run: RunDetails) -> Iterator[Text]:
    """Where each Job ran, when it reached each phase, and the command that prints its log."""
    hidden = len(run.kubernetes_jobs) - MAX_JOBS
    if hidden > 0:
        yield Text()
        yield Text(f"{counted(hidden, 'earlier Kubernetes Job')}; --json shows all", "dim")
    for job in run.kubernetes_jobs[-MAX_JOBS:]:
        yield Text()
        yield Text(f"Kubernetes Job {job.number}", "bold")
        where = f"{one_line(job.pod)}{f' on node {one_line(job.node)}' if job.node else ''}" if job.pod else ""
        phases = {name: ", ".join(filter(None, (with_offset(at) if at else "", note))) for name, at, note in job.phases}
        for name, fact in {"name": f"{job.namespace}/{job.name}", "pod": where, **phases, "log": job.logs}.items():
            if fact:
                yield Text(f"  {name:<9}  ", "dim") + Text(one_line(fact))


def _attempts(run: RunDetails, now: datetime, width: int) -> Iterator[Text]:
    failed = [attempt for attempt in run.attempts_made if attempt.cause or attempt.outcome in FAILURES]
    in_pods = any(attempt.pod for attempt in failed)
    names = ("OUTCOME", "ENDED", "DURATION", "WORKER", *(["CAUSE", "POD"] if in_pods else []))
    columns = (Column("TRY", right=True), *map(Column, names))
    yield from _section(
        "failed attempts",
        [*columns, Column("ERROR", shrinks=True)],
        [
            [
                str(attempt.attempt),
                styled(attempt.outcome),
                relative(attempt.ended_at, now),
                lasted(attempt.ended_at - attempt.started_at),
                one_line(attempt.worker or "-"),
                *([one_line(attempt.cause or "-"), one_line(attempt.pod or "-")] if in_pods else []),
                error_line(attempt.error_type, attempt.error),
            ]
            for attempt in failed
        ],
        width,
    )
    yield from _stack(failed)


def _stack(attempts: Sequence[AttemptRow]) -> Iterator[Text]:
    last = next((attempt.stack for attempt in reversed(attempts) if attempt.stack), None)
    if last is None:
        return
    lines = printable(last).splitlines()
    yield Text()
    yield Text("last stack", "bold")
    if len(lines) > MAX_STACK_LINES:
        yield Text(f"  … {counted(len(lines) - MAX_STACK_LINES, 'line')} above; --json shows all", "dim")
    yield from (Text(f"  {line}", "dim") for line in lines[-MAX_STACK_LINES:])


def _steps(run: RunDetails, width: int) -> Iterator[Text]:
    """The steps. A start that a later one repeated has a row of its own, with its attempt."""
    columns = (Column("STEP", shrinks=True), Column("STATE"), Column("DURATION"), Column("RESULT", shrinks=True))
    attempts = {attempt.lease_epoch: f", attempt {attempt.attempt}" for attempt in run.attempts_made}
    notes = {id(step): attempts.get(step.lease_epoch, "") for step in run.earlier_steps}
    rows = [
        [
            one_line(step.name),
            styled(step.state, notes.get(id(step), "") + (", reused" if step.reused_epochs else _progress_of(step))),
            lasted(step.duration) if step.duration is not None else "-",
            one_line(step.error or "" if step.result is None else mask_json(step.result).text),
        ]
        for step in sorted((*run.earlier_steps, *run.steps), key=attrgetter("started_at"))
    ]
    yield from _section("steps", columns, rows, width)


def _progress_of(step: StepRow) -> str:
    words = progress_in_words(step.progress, step.progress_message)
    return f", {words}" if words else ""


def _effects(effects: Sequence[EffectRow], now: datetime, width: int) -> Iterator[Text]:
    columns = (Column("EFFECT", shrinks=True), Column("STATE"), Column("WHEN"))
    rows = [
        [
            f"{one_line(effect.key)}{' (once for ever)' if effect.forever else ''}",
            styled(effect.state),
            relative(effect.finished_at or effect.started_at, now),
        ]
        for effect in effects
    ]
    yield from _section("effects", columns, rows, width)


def _section(title: str, columns: Sequence[Column], rows: Sequence[Sequence[str | Text]], width: int) -> Iterator[Text]:
    if rows:
        yield Text()
        yield Text(title, "bold")
        yield from (Text("  ") + line for line in table(columns, rows, width - 2))


def _timeline(run: RunDetails) -> Iterator[Text]:
    yield Text()
    yield Text(f"timeline ({zone_label()})", "bold")
    for at, event in sorted(_events(run), key=itemgetter(0)):
        yield Text(f"  {in_display_zone(at)}  ", "dim") + Text(event)


def _events(run: RunDetails) -> Iterator[tuple[datetime, str]]:
    yield run.created_at, f"created {_CREATED_BY.get(run.trigger, run.trigger)}"
    if run.scheduled_for != run.created_at and run.schedule:
        yield run.scheduled_for, "tick"
    yield from _attempt_events(run)
    for step in (*run.earlier_steps, *run.steps):
        state = "started" if step.ended_at is None else step.state
        yield step.ended_at or step.started_at, f"step {one_line(step.name)} {state}"
    for effect in run.effects:
        if effect.finished_epoch != effect.lease_epoch:
            state = "begun" if effect.finished_at else effect.state
            yield effect.started_at, f"effect {one_line(effect.key)} {state}"
        if effect.finished_at:
            yield effect.finished_at, f"effect {one_line(effect.key)} done"
    if run.cancel_requested_at:
        yield run.cancel_requested_at, "cancel requested"
    if run.dead_at:
        yield run.dead_at, f"dead: {run.error_type or 'no further attempts'}"
    will_start = run.status == "queued" and run.created_at < run.run_at < WAITS_FOR_RUNS_UNTIL
    if run.status == "failed" or will_start:
        yield run.run_at, "due for the next attempt" if run.attempts else "due"
    if run.finished_at:
        reason = reason_in_words(run.reason, run.status)
        yield run.finished_at, f"{run.status}: {reason}" if reason else run.status


def _attempt_events(run: RunDetails) -> Iterator[tuple[datetime, str]]:
    yield from ((row.at, action_line(row, run.id)) for row in run.actions)
    for attempt in run.attempts_made:
        worker = f" on {one_line(attempt.worker)}" if attempt.worker else ""
        yield attempt.started_at, f"attempt {attempt.attempt} started{worker}"
        error = one_line(attempt.error or "") if attempt.cause else attempt.error_type or one_line(attempt.error or "")
        outcome = f"attempt {attempt.attempt} {attempt.outcome.replace('_', ' ')}"
        yield attempt.ended_at, f"{outcome}: {error}" if error else outcome
    if run.started_at and all(attempt.lease_epoch != run.lease_epoch for attempt in run.attempts_made):
        worker = f" on {one_line(run.worker)}" if run.worker else ""
        yield run.started_at, f"attempt {run.attempts or 1} started{worker}"


def _advice(run: RunDetails) -> Iterator[Text]:
    """What the user can do next."""
    if any(effect.state == "in doubt" for effect in run.effects):
        yield Text()
        yield Text("An effect in doubt may have happened: check the other system before you retry.", "yellow")
    match run.status:
        case "dead":
            yield Text()
            yield Text(
                advice(f"`wakeboard retry {run.id}` runs it again, `wakeboard discard {run.id}` moves it to history.")
            )
        case "succeeded" | "cancelled" | "discarded":
            yield Text()
            yield Text(advice(f"`wakeboard replay {run.id}` enqueues a copy of it."))
        case _:
            pass
