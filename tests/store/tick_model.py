"""The model of schedules: what ticks, edits, removals and run-now do to definitions and runs, in plain Python.

Every schedule ticks each hour, half an hour from now. Tick 0 is the first future one at the start of the example. The
machine says how many hours have passed: tick n is due when more than n have.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from tests.store.state_machine.model import UNFINISHED, StoreModel
from tests.store.state_machine.model_rows import ModelRun

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import timedelta

    from wakeboard.schedules.calls import TickPlan

DEADLINE_HOURS: Final = 2  # of a schedule that has a starting deadline
LONG_PAUSE: Final = 5  # dead probes: the pause is then longer than the half hour until the next tick
NEWEST: Final = {"Skip": 0, "Latest": 1, "All": 2}  # of the missed ticks, how many run


@dataclass(frozen=True)
class ModelSpec:
    """The fields of a schedule's spec that the examples change."""

    policy: str = "Allow"
    catch_up: str = "Latest"
    deadline: bool = False
    suspended: bool = False
    priority: int = 3
    limit_key: str | None = None
    suspend_after_dead: int | None = None
    after: tuple[tuple[str, str, str], ...] = ()  # instead of ticks of its own: name, outcome, ticks


@dataclass
class ModelCircuit:
    """The circuit of a schedule. Times are numbers of events; `probe_from`: the number of a tick."""

    is_open: bool = False
    counted_from: int = 0
    probe: int | None = None
    probe_from: int = 0
    dead_probes: int = 0


@dataclass
class ModelDefinition:
    """A row of job_definitions. `cursor`: the number of the next tick, None when it is suspended or removed.

    `former`: when it was edited while a pause held ticks of former times, and the cursor of the times that follow.
    """

    id: int
    spec: ModelSpec
    generation: int = 1
    cursor: int | None = None
    last_tick: int = -1
    removed: bool = False
    skipped: Counter[tuple[int, str]] = field(default_factory=Counter[tuple[int, str]])  # of each tick: why
    circuit: ModelCircuit = field(default_factory=ModelCircuit)
    has_dependents: bool = False
    former: list[tuple[int, int | None]] = field(default_factory=list[tuple[int, int | None]])

    @property
    def keys(self) -> tuple[str | None, str | None]:
        """The limit keys of its runs. All but Allow run one at a time, whatever key they share with others."""
        key = self.spec.limit_key
        return (key, None) if self.spec.policy == "Allow" else (f"schedule:{self.id}", key)


@dataclass(frozen=True)
class ModelPlan:
    """A plan for a definition's due ticks: which run and which are skipped."""

    definition: int
    generation: int
    cursor: int
    hours: int  # when it was computed
    run: tuple[int, ...]
    skip: tuple[tuple[int, str], ...]


class TickModel:
    """The definitions of one source, by name."""

    def __init__(self, store: StoreModel) -> None:
        self.store = store
        self.hours = 0
        self.by_name: dict[str, ModelDefinition] = {}
        store.late = self.is_late

    def is_late(self, run: ModelRun) -> bool:
        """Whether its starting deadline has passed."""
        return run.late_from is not None and run.late_from <= self.hours

    def definition(self, number: int) -> ModelDefinition:
        """By id."""
        return next(each for each in self.by_name.values() if each.id == number)

    # -- plans ---------------------------------------------------------------------------------------------------------

    def is_paused(self, definition: ModelDefinition) -> bool:
        """Whether a pause holds its ticks back."""
        return bool(self.store.pauses & {"all", "queue:a", f"schedule:{definition.id}"})

    def due(self, definition: ModelDefinition) -> range:
        """Its due ticks; of former times, if there are any."""
        end = definition.former[0][0] if definition.former else self.hours
        return range(end if definition.cursor is None else definition.cursor, end)

    def plan(self, definition: ModelDefinition, reason: str = "") -> ModelPlan | None:
        """The plan for its due ticks. With a reason all are skipped. None: none is due."""
        ticks = self.due(definition)
        if not ticks:
            return None
        skip = [(tick, reason) for tick in ticks if reason]
        hours = definition.former[0][0] if definition.former else self.hours
        late = hours - DEADLINE_HOURS if definition.spec.deadline else 0
        skip += [(tick, "TooLate") for tick in ticks if not reason and tick < late]
        missed = [tick for tick in ticks if not reason and tick >= late]
        newest = NEWEST[definition.spec.catch_up]
        run = missed[-newest:] if newest else []
        skip += [(tick, f"CatchUp{definition.spec.catch_up}") for tick in missed if tick not in run]
        return ModelPlan(definition.id, definition.generation, ticks[0], hours, tuple(run), tuple(skip))

    def plans(self) -> list[ModelPlan]:
        """The plans of all definitions that `due_definitions` returns."""
        free = [each for each in self.by_name.values() if not self.is_paused(each)]
        return [plan for each in free if (plan := self.plan(each))]

    # -- scheduling ----------------------------------------------------------------------------------------------------

    def enqueue_due_ticks(self, plans: Iterable[ModelPlan]) -> list[tuple[int, int]]:
        """The runs of these plans: (definition, tick). Outdated plans do nothing."""
        made: list[tuple[int, int]] = []
        for plan in plans:
            definition = self.definition(plan.definition)
            now = definition.generation, definition.cursor
            if now == (plan.generation, plan.cursor) and not definition.removed:
                made += [(plan.definition, tick) for tick in self._apply_policy(definition, plan)]
                _, definition.cursor = definition.former.pop(0) if definition.former else (0, definition.last_tick + 1)
        return made

    def _apply_policy(self, definition: ModelDefinition, plan: ModelPlan) -> Sequence[int]:
        """The ticks that become runs by the concurrency policy."""
        definition.skipped.update(plan.skip)
        run = self._apply_circuit(definition, plan.run)
        definition.last_tick = plan.hours - 1
        return self.apply_concurrency(definition, run)

    def apply_concurrency(self, definition: ModelDefinition, run: tuple[int, ...]) -> Sequence[int]:
        """Those of these ticks that become runs. The others are skipped, and runs may be replaced."""
        match definition.spec.policy:
            case "Forbid":
                made = run[:1] if not self.unfinished(definition) else ()
                definition.skipped.update((tick, "Forbidden") for tick in run if tick not in made)
                return made
            case "Replace":
                if run:
                    self._replace(definition)
                definition.skipped.update((tick, "Replaced") for tick in run[:-1])
                return run[-1:]
            case _:
                return run

    def unfinished(self, definition: ModelDefinition) -> list[ModelRun]:
        """Its queued, running or failed runs, but not those of backfills."""
        return [run for run in self._unfinished(definition) if run.trigger != "backfill"]

    def _unfinished(self, definition: ModelDefinition) -> list[ModelRun]:
        return [run for run in self.store.live() if run.definition == definition.id and run.status in UNFINISHED]

    def _replace(self, definition: ModelDefinition) -> None:
        for run in self.unfinished(definition):
            if run.status == "running":
                run.cancel, run.cancel_reason = True, run.cancel_reason or "Replaced"
            else:
                self.store.finish(run, "cancelled", "Replaced")

    def tick_became_run(self, number: int, definition: ModelDefinition, tick: int) -> None:
        """Adds the run of a tick."""
        follows = bool(definition.spec.after)
        late_from = self.hours + DEADLINE_HOURS if follows else tick + DEADLINE_HOURS + 1
        self.store.runs[number] = ModelRun(
            number,
            priority=definition.spec.priority,
            limit_key=definition.keys[0],
            shared_limit_key=definition.keys[1],
            max_attempts=2,
            rank=(2, self.store.now) if follows else (1, tick - self.hours),
            definition=definition.id,
            trigger="tick",
            tick=tick,
            late_from=late_from if definition.spec.deadline else None,
            has_dependents=definition.has_dependents,
        )
        if definition.circuit.is_open:
            definition.circuit.probe = number

    def keys_of(self, run: ModelRun) -> tuple[str | None, str | None]:
        """The limit keys of a new run that is made from this one."""
        return (run.limit_key, None) if run.definition is None else self.definition(run.definition).keys

    def rekey(self, definition: ModelDefinition) -> None:
        """An edit puts the runs that exist behind the keys of the new spec."""
        for run in self.store.live():
            if run.definition == definition.id and run.trigger != "backfill":
                run.limit_key, run.shared_limit_key = definition.keys

    # -- circuits ------------------------------------------------------------------------------------------------------

    def _apply_circuit(self, definition: ModelDefinition, run: tuple[int, ...]) -> tuple[int, ...]:
        """Those of these ticks that an open circuit lets through: one probe, or none."""
        self.check_circuit(definition)
        circuit = definition.circuit
        if not circuit.is_open:
            return run
        probes = circuit.probe is None and bool(run) and run[-1] >= circuit.probe_from
        definition.skipped.update((tick, "CircuitOpen") for tick in (run[:-1] if probes else run))
        return run[-1:] if probes else ()

    def check_circuit(self, definition: ModelDefinition) -> None:
        """Opens or closes it, as the last runs of its ticks ended."""
        circuit, number = definition.circuit, definition.spec.suspend_after_dead
        if number is None:
            return
        mine = [run for run in self.store.runs.values() if (run.definition, run.trigger) == (definition.id, "tick")]
        succeeded = [run.ended for run in mine if run.status == "succeeded" and run.ended > circuit.counted_from]
        was_open, counted_from = circuit.is_open, max([circuit.counted_from, *succeeded])
        if not was_open or succeeded:
            circuit.is_open = number <= sum(run.status == "dead" and run.died > counted_from for run in mine)
        if circuit.is_open != was_open or (was_open and succeeded):
            circuit.counted_from = counted_from
        if circuit.is_open != was_open:
            circuit.probe, circuit.dead_probes = None, 0
            circuit.probe_from = max(self.hours, (definition.cursor or 0) + 1 if definition.cursor is not None else 0)
        elif circuit.probe is not None:
            self._end_probe(definition, self.store.runs[circuit.probe])

    def _end_probe(self, definition: ModelDefinition, probe: ModelRun) -> None:
        circuit = definition.circuit
        if probe.live and probe.status != "dead":
            return
        circuit.probe = None
        if probe.status == "dead":
            circuit.dead_probes += 1
            pause_covers_a_tick = circuit.dead_probes >= LONG_PAUSE
            next_tick = 0 if definition.cursor is None else definition.cursor + 1
            circuit.probe_from = max(self.hours + pause_covers_a_tick, next_tick)

    def update_circuits(self) -> int:
        """How many are open."""
        guarded = [each for each in self.by_name.values() if each.spec.suspend_after_dead and not each.removed]
        for each in guarded:
            died = [run for run in self.store.live() if (run.definition, run.trigger) == (each.id, "tick")]
            if each.circuit.is_open or any(run.status == "dead" for run in died):
                self.check_circuit(each)
        return sum(each.circuit.is_open for each in guarded)

    def close_circuit(self, definition: ModelDefinition) -> bool:
        """Whether it was open. It counts from zero."""
        if definition.removed or not definition.circuit.is_open:
            return False
        definition.circuit = ModelCircuit(counted_from=self.store.events)
        return True

    # -- edits ---------------------------------------------------------------------------------------------------------

    def declare(self, name: str, spec: ModelSpec, number: int) -> tuple[str, list[tuple[int, int]]]:
        """created, updated or unchanged; and the runs of ticks that were due under the old spec."""
        known = self.by_name.get(name)
        cursor = None if spec.suspended or spec.after else self.hours
        if known is None:
            self.by_name[name] = ModelDefinition(number, spec, cursor=cursor, last_tick=self.hours - 1)
            return "created", []
        if known.spec == spec and not known.removed:
            return "unchanged", []
        if self.is_paused(known) and not spec.suspended and self.due(known):
            cursor, made = self._keep_due_ticks(known, spec, cursor), []
        else:
            made = self._end_ticks(known, "Suspended" if spec.suspended else "")
        keeps = spec.suspend_after_dead is not None and not known.removed
        if spec.suspend_after_dead is not None and (known.spec.suspend_after_dead is None or known.removed):
            known.circuit.counted_from = self.store.events
        if not keeps:
            known.circuit = ModelCircuit(counted_from=known.circuit.counted_from)
        known.spec, known.removed, known.cursor = spec, False, cursor
        known.generation += 1
        return "updated", made

    def _keep_due_ticks(self, known: ModelDefinition, spec: ModelSpec, following: int | None) -> int | None:
        """The ticks that a pause holds stay due, also if the edit changes when it ticks. Returns the cursor."""
        if bool(spec.after) != bool(known.spec.after):
            between = known.former[-1][1] if known.former else 0
            if known.former and (between is None or between >= self.hours):  # these times had no tick
                known.former[-1] = known.former[-1][0], following
            else:
                known.former.append((self.hours, following))
        return known.cursor

    def _end_ticks(self, known: ModelDefinition, reason: str) -> list[tuple[int, int]]:
        made: list[tuple[int, int]] = []
        while plan := self.plan(known, reason):
            made += self.enqueue_due_ticks([plan])
        return made

    def remove(self, name: str) -> None:
        """Skips its due ticks and cancels its queued and failed runs. Running and dead runs stay."""
        known = self.by_name[name]
        self._end_ticks(known, "ScheduleRemoved")
        known.removed, known.cursor = True, None
        for run in self._unfinished(known):
            if run.status != "running":
                self.store.finish(run, "cancelled", "ScheduleRemoved")

    def run_now(self, definition: ModelDefinition, number: int | None) -> str:
        """Its answer's first word; `number`: the run that was made."""
        if definition.removed or (definition.spec.policy == "Forbid" and self.unfinished(definition)):
            return "refused"
        assert number is not None
        if definition.spec.policy == "Replace":
            self._replace(definition)
        self.store.runs[number] = ModelRun(
            number,
            priority=definition.spec.priority,
            limit_key=definition.keys[0],
            shared_limit_key=definition.keys[1],
            max_attempts=2,
            rank=self.store.rank_of_now(),
            definition=definition.id,
            trigger="manual",
        )
        return "queued"


def older(plan: TickPlan, by: timedelta) -> TickPlan:
    """The plan as if computed so much earlier."""
    return replace(
        plan,
        cursor=plan.cursor - by,
        next_cursor=plan.next_cursor and plan.next_cursor - by,
        up_to=plan.up_to and plan.up_to - by,
        ticks=[tick - by for tick in plan.ticks],
        skipped=[skip._replace(since=skip.since - by, until=skip.until - by) for skip in plan.skipped],
    )
