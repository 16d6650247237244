"""The circuits of schedules against a model: random ticks, ends, retries, discards, cancellations, resumes and edits.

The model keeps the ended runs in a list and looks at the last ones. It knows nothing of times, cursors and rows.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest

from tests.store.test_circuits import circuit, define, die, end_pause, succeed, tick

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.store.sql_clients import SqlClient

STEPS = 70
WEIGHTS = {
    "tick": 8.0,
    "die": 8.0,
    "succeed": 2.0,
    "retry": 2.0,
    "discard": 1.0,
    "cancel": 1.0,
    "resume": 0.4,
    "decide": 3.0,
    "end_pause": 4.0,
    "edit": 0.5,
}


@dataclass
class Model:
    """A schedule with suspendAfterDead. `ended`: (run, is dead), in the order of the ends since the last reset."""

    number: int
    ended: list[tuple[int, bool]] = field(default_factory=list[tuple[int, bool]])
    is_open: bool = False
    successes_seen: int = 0  # when the circuit was last decided while it was open
    probe: int | None = None
    probes: int = 0
    pause_is_over: bool = False
    running: set[int] = field(default_factory=set[int])
    cancelled: set[int] = field(default_factory=set[int])

    def dead(self) -> list[int]:
        return [run for run, is_dead in self.ended if is_dead]

    def successes(self) -> int:
        return sum(not is_dead for _, is_dead in self.ended)

    def decide(self) -> None:
        newest = self.ended[-self.number :]
        all_dead = len(newest) == self.number and all(is_dead for _, is_dead in newest)
        was_open, succeeded = self.is_open, self.successes() > self.successes_seen
        if not was_open or succeeded:
            self.is_open = all_dead
        if self.is_open != was_open:
            self.successes_seen = self.successes()
            self.probe, self.probes, self.pause_is_over = None, 0, False
        if self.is_open:
            self.successes_seen = self.successes()
        if self.is_open == was_open and self.probe is not None and self.probe not in self.running:
            if self.probe in self.dead():
                self.probes, self.pause_is_over = self.probes + 1, False
            self.probe = None

    def tick(self) -> bool:
        """Whether it becomes a run."""
        self.decide()
        return not self.is_open or (self.probe is None and self.pause_is_over)

    def created(self, run: int) -> None:
        self.running.add(run)
        if self.is_open:
            self.probe = run

    def end(self, run: int, *, is_dead: bool) -> None:
        self.running.discard(run)
        self.ended.append((run, is_dead))

    def retry(self, run: int) -> None:
        self.ended.remove((run, True))
        self.running.add(run)

    def reset(self) -> None:
        self.ended, self.successes_seen, self.is_open = [], 0, False
        self.probe, self.probes, self.pause_is_over = None, 0, False


class Comparison:
    """Does the same to a schedule and to its model."""

    def __init__(self, admin: SqlClient, worker: SqlClient, seed: int) -> None:
        self.admin, self.worker, self.chance = admin, worker, random.Random(seed)
        self.model = Model(number=self.chance.randint(1, 4))
        self.definition = define(admin, self.model.number)
        self.discarded: set[int] = set()

    def _pick(self, runs: set[int]) -> list[int]:
        return [self.chance.choice(sorted(runs))] if runs else []

    def tick(self) -> None:
        expected = self.model.tick()
        assert tick(self.admin, self.definition) == ("run" if expected else "CircuitOpen")
        if expected:
            newest = "select max(id) from job_runs where definition_id = %s"
            self.model.created(self.admin.value(newest, self.definition))

    def die(self) -> None:
        self._end(die, is_dead=True)

    def succeed(self) -> None:
        self._end(succeed, is_dead=False)

    def _end(self, report: Callable[[SqlClient, int, int], None], *, is_dead: bool) -> None:
        self.worker.claim()
        for run in self._pick(self.model.running):
            report(self.worker, run, self.admin.value("select lease_epoch from job_runs where id = %s", run))
            self.model.end(run, is_dead=is_dead)

    def retry(self) -> None:
        for run in self._pick(set(self.model.dead()) - self.discarded):
            self.admin.sql("select retry(%s)", [run])
            self.model.retry(run)

    def discard(self) -> None:
        for run in self._pick(set(self.model.dead()) - self.discarded):
            self.admin.sql("select discard(%s)", [run])
            self.discarded.add(run)

    def cancel(self) -> None:
        queued = set(self.admin.column("select id from job_runs where status = 'queued'"))
        for run in self._pick(self.model.running & queued):
            self.admin.sql("select cancel(%s)", [run])
            self.model.running.discard(run)

    def resume(self) -> None:
        assert self.admin.value("select resume(%s)", f"schedule:{self.definition}") == self.model.is_open
        if self.model.is_open:
            self.model.reset()

    def decide(self) -> None:
        self.model.decide()
        assert self.admin.value("select update_circuits()") == self.model.is_open

    def end_pause(self) -> None:
        if self.model.is_open:
            end_pause(self.admin, self.definition)
            self.model.pause_is_over = True

    def edit(self) -> None:
        self.model.number = self.chance.randint(1, 4)
        self.admin.sql("update job_definitions set suspend_after_dead = %s", self.model.number)

    def compare(self) -> None:
        found = circuit(self.admin, self.definition)
        known = self.model
        assert (found.is_open, found.probe, found.probes or 0) == (known.is_open, known.probe, known.probes)


@pytest.mark.parametrize("seed", range(8))
def test_a_circuit_follows_the_runs_as_they_end(admin: SqlClient, worker: SqlClient, seed: int) -> None:
    comparison = Comparison(admin, worker, seed)
    opened = 0
    for _ in range(STEPS):
        name = comparison.chance.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]
        getattr(comparison, name)()
        comparison.compare()
        opened += comparison.model.is_open
    assert opened, "it opens in each of these"
