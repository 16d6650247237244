"""The model of backfills: which ticks they run, and what pausing, resuming and cancelling does, in plain Python."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tests.store.state_machine.model import UNFINISHED
from tests.store.state_machine.model_rows import ModelRun

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.store.state_machine.model import StoreModel
    from tests.store.tick_model import ModelDefinition, TickModel


@dataclass
class ModelBackfill:
    """A row of backfills, and its ticks with their runs."""

    id: int
    definition: int
    at_once: int
    total: int
    ticks: dict[int, int | None] = field(default_factory=dict[int, "int | None"])
    created: int = 0
    paused: bool = False
    cancelled: bool = False
    finished: bool = False
    cancelled_at: int = 0  # the number of events until then

    @property
    def key(self) -> str:
        """The limit key of its runs."""
        return f"backfill:{self.id}"


class BackfillModel:
    """All backfills, by id."""

    def __init__(self, store: StoreModel, schedules: TickModel) -> None:
        self.store, self.schedules = store, schedules
        self.by_id: dict[int, ModelBackfill] = {}

    def unfinished(self, job: ModelBackfill) -> list[ModelRun]:
        """Its runs that are queued, running or failed."""
        mine = set(job.ticks.values())
        return [run for run in self.store.live() if run.id in mine and run.status in UNFINISHED]

    def known_ticks(self, job: ModelBackfill) -> list[tuple[int, int | None]]:
        """Its ticks and their runs, without those of runs that were cancelled."""
        return [
            (tick, run) for tick, run in job.ticks.items() if run is None or self.store.runs[run].status != "cancelled"
        ]

    def created(self, job: ModelBackfill) -> int:
        """Its ticks that became runs. Those that are cancelled after it was count as not run."""
        if not job.cancelled:
            return job.created
        runs = (self.store.runs[run] for run in job.ticks.values() if run is not None)
        return job.created - sum(run.status == "cancelled" and run.ended > job.cancelled_at for run in runs)

    def has(self, definition: ModelDefinition, tick: int) -> bool:
        """Whether a backfill has this tick."""
        return any(job.definition == definition.id and tick in job.ticks for job in self.by_id.values())

    def retried(self, run: ModelRun) -> None:
        """A run of a paused backfill waits until that is resumed."""
        for job in self.by_id.values():
            if job.paused and run.id in job.ticks.values():
                run.limit_key = job.key

    # -- declarations --------------------------------------------------------------------------------------------------

    def chosen(self, definition: ModelDefinition, ticks: Iterable[int], *, again: bool) -> list[int]:
        """Those of these ticks that a backfill runs."""
        states = {"new", *(("dead", "ran", "discarded") if again else ())}
        return [tick for tick in ticks if self._state(definition, tick) in states]

    def _state(self, definition: ModelDefinition, tick: int) -> str:
        runs = [run for run in self.store.runs.values() if (run.definition, run.tick) == (definition.id, tick)]
        live = {run.status for run in runs if run.live}
        past = {run.status for run in runs if not run.live}
        waiting = any(job.ticks.get(tick, 0) is None for job in self.by_id.values() if job.definition == definition.id)
        if definition.cursor is not None and tick >= definition.cursor:
            return "scheduled"
        if waiting or live - {"dead"}:
            return "unfinished"
        return "ran" if "succeeded" in past else "dead" if live else "discarded" if "dead" in past else "new"

    def create(self, number: int, definition: ModelDefinition, ticks: list[int], at_once: int) -> list[tuple[int, int]]:
        """The ticks that became runs: (backfill, tick)."""
        job = ModelBackfill(number, definition.id, at_once, len(ticks), dict.fromkeys(ticks))
        self.by_id[number] = job
        return self._create_runs(job)

    def _create_runs(self, job: ModelBackfill) -> list[tuple[int, int]]:
        definition = self.schedules.definition(job.definition)
        if job.created == job.total or definition.removed or self.schedules.is_paused(definition):
            return []
        self.store.limits.setdefault(job.key, job.at_once)
        self.store.rank_of_now()
        made = [(job.id, tick) for tick, run in sorted(job.ticks.items()) if run is None]
        job.created += len(made)
        return made

    def tick_became_run(self, number: int, backfill: int, tick: int) -> None:
        """Adds the run of a tick."""
        job = self.by_id[backfill]
        definition = self.schedules.definition(job.definition)
        job.ticks[tick] = number
        self.store.runs[number] = ModelRun(
            number,
            priority=1,
            limit_key=job.key if definition.spec.policy == "Allow" else f"schedule:{definition.id}",
            shared_limit_key=definition.spec.limit_key,
            max_attempts=2,
            rank=(2, self.store.now),
            definition=definition.id,
            trigger="backfill",
            tick=tick,
            has_dependents=definition.has_dependents,
        )

    def rekey(self, definition: ModelDefinition) -> None:
        """An edit of the schedule's keys puts the live runs of its backfills behind the new ones."""
        own, shared = definition.keys
        for job in self.by_id.values():
            for run in self.store.live():
                if job.definition == definition.id and run.id in job.ticks.values():
                    of_schedule = own is not None and own.startswith("schedule:")
                    run.limit_key = own if of_schedule and not job.paused else job.key
                    run.shared_limit_key = shared if of_schedule else own

    # -- actions -------------------------------------------------------------------------------------------------------

    def pause(self, job: ModelBackfill) -> bool:
        """False: it is paused already, or has ended."""
        if job.finished or job.paused:
            return False
        job.paused, self.store.limits[job.key] = True, 0
        for run in self.unfinished(job):
            if run.by == 0:
                run.limit_key = job.key
        return True

    def resume(self, job: ModelBackfill) -> tuple[bool, list[tuple[int, int]]]:
        """Whether it was paused; the ticks that became runs."""
        if not job.paused:
            return False, []
        job.paused, self.store.limits[job.key] = False, job.at_once
        if self.schedules.definition(job.definition).spec.policy != "Allow":
            for run in self.unfinished(job):
                run.limit_key = f"schedule:{job.definition}"
        return True, self._create_runs(job)

    def cancel(self, job: ModelBackfill) -> tuple[bool, int, int]:
        """Whether it was cancelled by this; how many runs were cancelled, and asked to stop."""
        if job.finished:
            return False, 0, 0
        answers = {run.id: self.store.cancel(run) for run in self.unfinished(job)}
        gone = {run for run, answer in answers.items() if answer == "cancelled"}
        job.ticks = {tick: run for tick, run in job.ticks.items() if run not in gone}
        job.created -= len(gone)
        self._end(job)
        return True, len(gone), len(answers) - len(gone)

    def _end(self, job: ModelBackfill) -> None:
        job.cancelled, job.finished, job.paused, job.cancelled_at = True, True, False, self.store.events
        job.ticks = {tick: run for tick, run in job.ticks.items() if run is not None}
        if job.key in self.store.limits:
            self.store.limits[job.key] = job.at_once

    def proceed(self) -> list[tuple[int, int]]:
        """Maintenance: the ticks that became runs."""
        made: list[tuple[int, int]] = []
        for job in self.by_id.values():
            if job.finished:
                continue
            if self.schedules.definition(job.definition).removed:
                self._end(job)
            elif not job.paused:
                new = self._create_runs(job)
                made += new
                job.finished = job.created == job.total and not new and not self.unfinished(job)
        return made
