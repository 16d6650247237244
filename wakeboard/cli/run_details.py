"""One run on a sheet: what it is, what it was given, what it did and what went wrong."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rich.text import Text

from wakeboard.cli.listings import about, error_line, run_of, run_when
from wakeboard.cli.tables import ENDLESS, Column, table, word
from wakeboard.cli.time_args import clock, time_of
from wakeboard.display_zone import zone_label
from wakeboard.rules.humanize import counted, lasted, reason_in_words, relative, times
from wakeboard.rules.sanitize import one_line, printable

if TYPE_CHECKING:
    from datetime import datetime

    from wakeboard.store.queries.run_details import AttemptRow, EffectRow, RunDetails, StepRow

LONGEST_VALUE = 2000  # characters of a payload or a result
SHOWN_HASH = 12  # characters of a spec's hash; --json has all
STACK_LINES = 25  # the last ones tell most

_TRIGGERS = {
    "tick": "by its schedule",
    "manual": "by hand (run-now)",
    "replay": "as a replay",
    "application": "by an application",
}


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened to a run."""

    at: datetime
    what: str


def run_details(run: RunDetails, now: datetime, width: int = ENDLESS) -> list[Text]:
    """The whole sheet, as lines."""
    return [
        Text(f"run {run.id}  ") + word(run.status) + Text(_rest_of_title(run, now)),
        *_facts(run),
        *_value("payload", run.payload),
        *(_value("result", run.result) if run.result is not None else []),
        *_attempts(run, now, width),
        *_steps(run.steps, now, width),
        *_effects(run.effects, now, width),
        *_timeline(run),
        *_advice(run),
    ]


def _rest_of_title(run: RunDetails, now: datetime) -> str:
    more = about(run)
    return f"  {run_when(run, now)}" + (f"  {more}" if more else "")


def _facts(run: RunDetails) -> Iterator[Text]:
    tick = f", the tick of {clock(run.scheduled_for)}" if run.trigger == "tick" else ""
    facts = {
        "of": f"{one_line(run_of(run))}{tick}" if run.schedule else "",
        "spec": _spec(run),
        "made": f"{clock(run.created_at)}, {_TRIGGERS.get(run.trigger, run.trigger)}",
        "type": f"{one_line(run.job_type)}, queue {one_line(run.queue)}, priority {run.priority}",
        "uuid": str(run.uuid),
        "tries": _tries(run),
        "worker": _worker(run),
        "limit": one_line(run.limit_key or ""),
        "key": one_line(run.idempotency_key or ""),
        "start by": f"{clock(run.start_before)}" if run.start_before else "",
    }
    for name, fact in facts.items():
        if fact:
            yield Text(f"  {name:<8}  ", "dim") + Text(fact)


def _spec(run: RunDetails) -> str:
    if run.definition_generation is None:
        return ""
    spec = f"spec {run.spec_hash[:SHOWN_HASH]}" if run.spec_hash else "its schedule has another spec now"
    return f"generation {run.definition_generation}, {spec}"


def _worker(run: RunDetails) -> str:
    if run.worker is None or run.locked_until is None:
        return ""
    return f"{one_line(run.worker)}, lease until {clock(run.locked_until)}"


def _tries(run: RunDetails) -> str:
    backoff = (
        f"{run.backoff_base_s} s" if run.backoff_strategy == "fixed" else f"{run.backoff_base_s}…{run.backoff_cap_s} s"
    )
    parts = [
        f"{run.attempts} of {run.max_attempts}",
        f"timeout {run.timeout_s} s",
        f"{run.backoff_strategy} backoff {backoff}",
        counted(run.crash_count, "crash") if run.crash_count else "",
        f"given back {times(run.release_count)}" if run.release_count else "",
    ]
    return ", ".join(part for part in parts if part)


def _value(name: str, value: Any) -> Iterator[Text]:
    text = json.dumps(value, ensure_ascii=False, indent=2)
    lines = printable(text[:LONGEST_VALUE]).splitlines()
    if len(text) > LONGEST_VALUE:
        lines.append(f"… {counted(len(text) - LONGEST_VALUE, 'more character')}; --json shows all")
    yield Text()
    yield Text(name, "bold")
    yield from (Text(f"  {line}") for line in lines)


def _attempts(run: RunDetails, now: datetime, width: int) -> Iterator[Text]:
    failed = [made for made in run.attempts_made if made.outcome not in {"snoozed", "released"}]  # the timeline has all
    columns = (Column("TRY", right=True), *(Column(name) for name in ("ENDED", "WHEN", "AFTER", "WORKER")))
    yield from _section(
        "attempts that failed",
        [*columns, Column("ERROR", narrows=True)],
        [
            [
                str(made.attempt),
                word(made.outcome),
                relative(made.ended_at, now),
                lasted(made.ended_at - made.started_at),
                one_line(made.worker or "-"),
                error_line(made.error_type, made.error),
            ]
            for made in failed
        ],
        width,
    )
    yield from _stack(failed)


def _stack(attempts: Sequence[AttemptRow]) -> Iterator[Text]:
    last = next((made.stack for made in reversed(attempts) if made.stack), None)
    if last is None:
        return
    lines = printable(last).splitlines()
    yield Text()
    yield Text("last stack", "bold")
    if len(lines) > STACK_LINES:
        yield Text(f"  … {counted(len(lines) - STACK_LINES, 'line')} above; --json shows all", "dim")
    yield from (Text(f"  {line}", "dim") for line in lines[-STACK_LINES:])


def _steps(steps: Sequence[StepRow], now: datetime, width: int) -> Iterator[Text]:
    columns = (Column("STEP", narrows=True), Column("STATE"), Column("WHEN"), Column("RESULT", narrows=True))
    rows = [
        [
            one_line(step.name),
            word("done") if step.finished_at else word("begun"),
            f"in {lasted(step.finished_at - step.started_at)}" if step.finished_at else relative(step.started_at, now),
            "" if step.result is None else one_line(json.dumps(step.result, ensure_ascii=False)),
        ]
        for step in steps
    ]
    yield from _section("steps", columns, rows, width)


def _effects(effects: Sequence[EffectRow], now: datetime, width: int) -> Iterator[Text]:
    columns = (Column("EFFECT", narrows=True), Column("STATE"), Column("WHEN"))
    rows = [
        [one_line(effect.key), word(effect.state), relative(effect.finished_at or effect.started_at, now)]
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
    for event in timeline(run):
        yield Text(f"  {time_of(event.at)}  ", "dim") + Text(event.what)


def timeline(run: RunDetails) -> list[Event]:
    """What happened to the run, in order of time, as far as its rows remember."""
    return sorted(_events(run), key=lambda event: event.at)


def _events(run: RunDetails) -> Iterator[Event]:
    yield Event(run.created_at, f"made {_TRIGGERS.get(run.trigger, run.trigger)}")
    if run.scheduled_for != run.created_at and run.schedule:
        yield Event(run.scheduled_for, "its tick")
    ended = {made.started_at for made in run.attempts_made}
    for made in run.attempts_made:
        yield Event(
            made.started_at, f"attempt {made.attempt} began{f' on {one_line(made.worker)}' if made.worker else ''}"
        )
        why = made.error_type or one_line(made.error or "")
        ended_as = f"attempt {made.attempt} {made.outcome.replace('_', ' ')}"
        yield Event(made.ended_at, f"{ended_as}: {why}" if why else ended_as)
    if run.started_at and run.started_at not in ended:
        yield Event(run.started_at, f"attempt {run.attempts or 1} began")
    for step in run.steps:
        yield Event(
            step.finished_at or step.started_at, f"step {one_line(step.name)} {'done' if step.finished_at else 'begun'}"
        )
    for effect in run.effects:
        yield Event(effect.finished_at or effect.started_at, f"effect {one_line(effect.key)} {effect.state}")
    if run.cancel_requested_at:
        yield Event(run.cancel_requested_at, "asked to stop")
    if run.dead_at:
        yield Event(run.dead_at, f"dead: {run.error_type or 'given up'}")
    if run.status == "failed" or (run.status == "queued" and run.run_at > run.created_at):
        yield Event(run.run_at, "is due (again)" if run.attempts else "is due")
    if run.finished_at:
        yield Event(
            run.finished_at, run.status + (f": {why}" if (why := reason_in_words(run.reason, run.status)) else "")
        )


def _advice(run: RunDetails) -> Iterator[Text]:
    """What a person can do next."""
    doubtful = any(effect.state == "in doubt" for effect in run.effects)
    if doubtful:
        yield Text()
        yield Text(
            "An effect in doubt was begun and never reported done: look at the other side before you retry.", "yellow"
        )
    match run.status:
        case "dead":
            yield Text()
            yield Text(f"`wakeboard retry {run.id}` tries it again, `wakeboard discard {run.id}` gives it up.")
        case "succeeded" | "cancelled" | "discarded":
            yield Text()
            yield Text(f"`wakeboard replay {run.id}` makes a new run from it: its effects happen again.")
        case _:
            pass
