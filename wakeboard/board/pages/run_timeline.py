"""What happened to a run, as one timeline and on one time axis. Pure functions of what was read."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import timedelta
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from wakeboard.engine.attempt_outcomes import ATTEMPT_OUTCOMES
from wakeboard.logs.rules import LEVELS, level_name
from wakeboard.text.humanize import counted, lasted, reason_in_words
from wakeboard.views.queries.run_page import BOUNDS
from wakeboard.views.rules.run_detail_rows import EffectRow

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from wakeboard.logs.rules import LogPart
    from wakeboard.views.queries.run_page import RunHistory
    from wakeboard.views.rules.audit_rows import AuditRow
    from wakeboard.views.rules.run_detail_rows import AttemptRow, RunDetails, StepRow

WIDTH: Final = 1000.0  # units of the axis
NARROWEST: Final = 4.0  # a shorter segment is drawn as wide as this
MOST_LANES: Final = 20  # of steps, and of effects
COLOURS: Final = {  # of steps and effects, by state
    "done": "succeeded",
    "running": "running",
    "begun": "running",
    "failed": "failed",
    "in doubt": "failed",
    "interrupted": "released",
}
_FOREVER: Final = ("(once for ever)", "(once for ever, taken over from another run)")
_SHORTEST_WAIT: Final = timedelta(milliseconds=50)


@dataclass(frozen=True, slots=True)
class EffectPart:
    """What one attempt had to do with an effect. `took`: None unless this attempt began it and reported it as done."""

    key: str
    state: str
    colour: str
    at: datetime
    took: timedelta | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """An entry of the timeline.

    `kind`: created, waiting, attempt with its outcome, parts, action, cancel, or the status that ended the run. It
    chooses the colour of the mark. `until`: the end of an attempt; None: it has no duration, or it runs. `steps`,
    `effects`: of the attempt. `reused`: the steps of earlier attempts whose stored results it took.
    `other_run`: the run that this one was made from, or that was made from it.
    """

    kind: str
    at: datetime
    title: str
    note: str = ""
    until: datetime | None = None
    error: str = ""
    stack: str = ""
    key: str = ""
    steps: list[StepRow] = field(default_factory=list["StepRow"])
    reused: list[StepRow] = field(default_factory=list["StepRow"])
    effects: list[EffectPart] = field(default_factory=list["EffectPart"])
    other_run: int | None = None

    @property
    def copied_stack(self) -> str:
        """The stack as a JSON string, for the copy button."""
        return json.dumps(self.stack)

    @property
    def duration(self) -> timedelta | None:
        """How long it took."""
        return self.until - self.at if self.until else None


@dataclass(frozen=True, slots=True)
class TimelineSegment:
    """A part of a lane: its kind, where it begins and how wide it is in units of `WIDTH`, and what it shows."""

    kind: str
    x: float
    width: float
    title: str


@dataclass(frozen=True, slots=True)
class Lane:
    """A row of the time axis. `kind`: run, step, effect or log. `title` says all of it in words."""

    kind: str
    name: str
    title: str
    segments: list[TimelineSegment]


@dataclass(frozen=True, slots=True)
class TimeAxis:
    """The life of a run on one axis: its waits and attempts, and below a lane for each step, each effect and the log.

    `hidden`: how many steps and effects have no lane.
    """

    begin: datetime
    end: datetime
    lanes: list[Lane]
    hidden: int

    @property
    def duration(self) -> timedelta:
        """From the beginning to the end."""
        return self.end - self.begin


# -- the timeline ------------------------------------------------------------------------------------------------------


def timeline(history: RunHistory) -> list[Event]:
    """All that happened to a run, oldest first."""
    run = history.run
    attempts = list(_attempts(history))
    events = [_created(run, run.actions), *_waits(run, attempts, history.now), *attempts]
    events += [_action(row, run.id) for row in run.actions if not _made(row, run)]
    if run.cancel_requested_at and not any(row.action == "cancel" for row in run.actions):
        note = run.cancel_reason or ""
        events.append(Event(kind="cancel", at=run.cancel_requested_at, title="A stop was requested", note=note))
    events += [*_unlisted(history, attempts), *_end(run)]
    order = {"created": 0, "waiting": 1, "attempt": 2}
    return sorted(events, key=lambda event: (event.at, order.get(event.kind.partition(" ")[0], 3)))


def hidden_attempts(history: RunHistory) -> int:
    """How many of the oldest attempts the timeline leaves out."""
    return max(0, history.run.attempts_made[0].attempt - 1) if len(history.run.attempts_made) >= BOUNDS.attempts else 0


def _created(run: RunDetails, actions: Sequence[AuditRow]) -> Event:
    """The first entry. If a user made the run, it says who and why."""
    by = next((row for row in actions if _made(row, run)), None)
    parent = by.run_id if by and by.action == "replay" else None
    who = f" by {by.actor} ({by.source})" if by else ""
    match run.trigger:
        case "tick":
            title = "Created by a tick of its schedule"
        case "manual":
            title = f"Started{who or ' by a user'}"
        case "replay":
            title = f"Created{who} as a replay{' of run' if parent else ''}"
        case "backfill":
            title = "Created by a backfill of its schedule"
        case _:
            title = "Enqueued by an application"
    notes = [by.reason if by else "", f"idempotency key {run.idempotency_key}" if run.idempotency_key else ""]
    note = ", ".join(note for note in notes if note)
    return Event(kind="created", at=run.created_at, title=title, note=note, other_run=parent)


def _made(row: AuditRow, run: RunDetails) -> bool:
    """Whether the action made this run."""
    return row.new_run_id == run.id or (row.action == "run_now" and row.run_id == run.id)


def _attempts(history: RunHistory) -> Iterator[Event]:
    run = history.run
    for attempt in history.run.attempts_made:
        worker = f"on {attempt.worker}" if attempt.worker else ""
        if attempt.pod:
            worker = f"{worker}, pod {attempt.pod}" if worker else f"pod {attempt.pod}"
        kind = None if attempt.cause else attempt.error_type  # the error begins with the cause
        error = ": ".join(part for part in (kind, attempt.error) if part)
        outcome = (
            f"{attempt.outcome}: its worker was terminated"
            if attempt.cause
            else ATTEMPT_OUTCOMES[attempt.outcome].words
        )
        yield _attempt(history, f"Attempt {attempt.attempt} {outcome}", attempt.outcome, attempt, worker, error)
    latest = run.started_at
    if latest is None or any(attempt.lease_epoch == run.lease_epoch for attempt in history.run.attempts_made):
        return
    if run.status == "running" or (run.status == "succeeded" and run.finished_at):
        word = "is running" if run.status == "running" else "succeeded"
        yield Event(
            kind=f"attempt {run.status}",
            at=latest,
            until=run.finished_at,
            title=f"Attempt {run.attempts} {word}",
            note=f"on {run.worker}" if run.worker else "",
            key=str(run.lease_epoch),
            steps=_steps_of(run, run.lease_epoch),
            reused=[step for step in run.steps if run.lease_epoch in step.reused_epochs],
            effects=list(_parts(run, run.lease_epoch)),
        )


def _attempt(history: RunHistory, title: str, outcome: str, attempt: AttemptRow, note: str, error: str) -> Event:
    return Event(
        kind=f"attempt {outcome}",
        at=attempt.started_at,
        until=attempt.ended_at,
        title=title,
        note=note,
        error=error,
        stack=attempt.stack or "",
        key=str(attempt.lease_epoch),
        steps=_steps_of(history.run, attempt.lease_epoch),
        reused=[step for step in history.run.steps if attempt.lease_epoch in step.reused_epochs],
        effects=list(_parts(history.run, attempt.lease_epoch)),
    )


def _steps_of(run: RunDetails, epoch: int) -> list[StepRow]:
    """The steps that the attempt of this lease started, also those that a later one repeated."""
    found = [step for step in (*run.earlier_steps, *run.steps) if step.lease_epoch == epoch]
    return sorted(found, key=attrgetter("started_at"))


def _parts(run: RunDetails, epoch: int) -> Iterator[EffectPart]:
    """What the attempt of this lease had to do with the effects of the run."""
    for effect in run.effects:
        began = effect.lease_epoch == epoch
        key = f"{effect.key} {_FOREVER[effect.taken_over]}" if effect.forever else effect.key
        if effect.finished_epoch == epoch and effect.finished_at:
            took = effect.finished_at - effect.started_at if began and not effect.taken_over else None
            yield EffectPart(key, "done", "succeeded", effect.finished_at, took)
        elif began or epoch in effect.begun_epochs:
            runs = run.status == "running" and run.lease_epoch == epoch
            state, colour = ("begun", "running") if runs and began else ("in doubt", "failed")
            yield EffectPart(key, state, colour, effect.started_at)


def _waits(run: RunDetails, attempts: Sequence[Event], now: datetime) -> Iterator[Event]:
    """The times between attempts, and until the first one or the end."""
    since = run.created_at
    for attempt in attempts:
        yield from _wait(since, attempt.at, run)
        since = attempt.until or now
    if run.finished_at is None and not run.locked_until and not run.dead_at:
        yield from _wait(since, now, run)
    elif run.finished_at and not run.dead_at and run.status != "skipped":
        yield from _wait(since, run.finished_at, run, "Was dead for" if run.status == "discarded" else "Waited")


def _wait(since: datetime, until: datetime, run: RunDetails, title: str = "Waited") -> Iterator[Event]:
    """A wait, of which the part before the run was due is separated if that is known."""
    if until - since < _SHORTEST_WAIT:
        return
    note = ""
    if since < run.run_at < until:
        due = run.run_at - since
        note = f"{lasted(due)} until it was due, then {lasted(until - run.run_at)}" if due > _SHORTEST_WAIT else ""
    yield Event(kind="waiting", at=since, until=until, title=f"{title} {lasted(until - since)}", note=note)


def _action(row: AuditRow, run_id: int) -> Event:
    return Event(kind="action", at=row.at, title=row.in_words(run_id), note=row.reason, other_run=row.new_run_id)


def _unlisted(history: RunHistory, attempts: Sequence[Event]) -> Iterator[Event]:
    """Steps and effects of attempts that have no entry."""
    keys, run = {attempt.key for attempt in attempts}, history.run
    steps = [step for step in (*run.earlier_steps, *run.steps) if str(step.lease_epoch) not in keys]
    epochs = {epoch for effect in run.effects for epoch in _epochs(effect) if str(epoch) not in keys}
    effects = [part for epoch in sorted(epochs) for part in _parts(run, epoch)]
    if steps or effects:
        first = min([*(step.started_at for step in steps), *(part.at for part in effects)])
        yield Event(kind="parts", at=first, title="Attempts that are not listed", key="0", steps=steps, effects=effects)


def _epochs(effect: EffectRow) -> set[int]:
    """The lease epochs of the attempts that an effect belongs to."""
    return {effect.lease_epoch, *effect.begun_epochs, effect.finished_epoch or effect.lease_epoch}


def _end(run: RunDetails) -> Iterator[Event]:
    if run.dead_at:
        yield Event(kind="dead", at=run.dead_at, title=f"Dead after {counted(run.attempts, 'attempt')}")
    if run.finished_at is None:
        return
    reason = reason_in_words(run.reason, run.status)
    title = run.status.capitalize()
    if run.skipped_count and run.skipped_count > 1:
        title = f"Skipped {counted(run.skipped_count, 'tick')}"
    yield Event(kind=run.status, at=run.finished_at, title=title, note=reason)


# -- the axis ----------------------------------------------------------------------------------------------------------


def time_axis(history: RunHistory, events: Sequence[Event]) -> TimeAxis | None:
    """Waits, attempts, steps, effects and log on a time axis; None: the run never waited and never ran."""
    shown = [event for event in events if event.kind == "waiting" or event.kind.startswith("attempt")]
    if not shown:
        return None
    begin, end = min(event.at for event in shown), max(event.until or history.now for event in shown)
    if begin >= end:
        return None

    def segment(kind: str, at: datetime, until: datetime, title: str) -> TimelineSegment:
        least = 0 if kind == "waiting" else NARROWEST
        width = min(WIDTH, max((min(until, end) - max(at, begin)) / (end - begin) * WIDTH, least))
        x = min(max(0.0, (at - begin) / (end - begin) * WIDTH), WIDTH - width)
        return TimelineSegment(kind, round(x, 2), round(width, 2), title)

    def lane(kind: str, name: str, *parts: tuple[StepRow | EffectRow, datetime]) -> Lane:
        """`parts`: with their ends. The last one gives the title."""
        segments: list[TimelineSegment] = []
        for part, until in parts:
            after = lasted(max(timedelta(), part.started_at - begin))
            title = f"{kind} {name}: {part.state}, {lasted(until - part.started_at)}, begun after {after}"
            if isinstance(part, EffectRow) and part.taken_over:
                title = f"{kind} {name}: {part.state}, taken over from another run in the attempt begun after {after}"
            segments.append(segment(COLOURS[part.state], part.started_at, until, title))
        return Lane(kind, name, segments[-1].title, segments)

    run = history.run
    starts: dict[str, list[tuple[StepRow, datetime]]] = {}
    for step in (*run.earlier_steps, *run.steps):
        starts.setdefault(step.name, []).append((step, _end_of_step(step, history.now)))
    waits_and_attempts = [
        segment(
            event.kind.replace("attempt ", ""),
            event.at,
            event.until or history.now,
            event.title
            if event.kind == "waiting"
            else f"{event.title}: {lasted((event.until or history.now) - event.at)}",
        )
        for event in shown
    ]
    steps = [lane("step", step.name, *starts[step.name]) for step in run.steps[:MOST_LANES]]
    effects = [
        lane("effect", effect.key, (effect, effect.finished_at or _end_of_attempt(effect, run, history.now)))
        for effect in run.effects[:MOST_LANES]
    ]
    hidden = len(run.steps) + len(run.effects) - len(steps) - len(effects)
    title = f"waits and attempts over {lasted(end - begin)}"
    log = [segment(_colour_of_level(part.level), part.first_at, part.last_at, _of_log(part)) for part in history.log]
    said = sum(part.lines for part in history.log)
    logs = [Lane("log", "", f"log: {counted(said, 'line')}", log)] if log else []
    return TimeAxis(begin, end, [Lane("run", "Attempts", title, waits_and_attempts), *steps, *effects, *logs], hidden)


def _colour_of_level(level: int) -> str:
    return "crashed" if level >= LEVELS["error"] else "failed" if level >= LEVELS["warning"] else "released"


def _of_log(part: LogPart) -> str:
    return f"log: {counted(part.lines, 'line')}, of the level {level_name(part.level)} or lower"


def _end_of_step(step: StepRow, now: datetime) -> datetime:
    return step.ended_at or (now if step.state == "running" else step.started_at)


def _end_of_attempt(effect: EffectRow, run: RunDetails, now: datetime) -> datetime:
    """When the attempt ended that began the effect first, or now."""
    if effect.state == "begun":
        return now
    ends = (attempt.ended_at for attempt in run.attempts_made if attempt.lease_epoch == effect.lease_epoch)
    return max(next(ends, effect.started_at), effect.started_at)
