"""The model of dependencies: schedules that run after others, and runs that wait for runs, in plain Python.

It is written from docs/pipelines.md. A schedule that runs after others has one row for each tick that they have passed
on to it. All schedules of an example have the same ticks, so `ticks: All` joins one tick of its parent.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.store.state_machine.backfills import BackfillModel
    from tests.store.state_machine.model import StoreModel
    from tests.store.state_machine.model_rows import ModelRun, NotedEnd
    from tests.store.tick_model import ModelDefinition, TickModel


@dataclass
class ModelEdge:
    """An entry of `after`. `parent`: the id of the schedule, None while there is none of this name."""

    name: str
    outcome: str
    ticks: str
    parent: int | None = None

    @property
    def entry(self) -> tuple[str, str, str]:
        """As it is declared."""
        return self.name, self.outcome, self.ticks


@dataclass
class ModelTick:
    """A tick of a schedule that has dependencies or dependents. `waits_for`: check, ticks, run, or nothing."""

    run: int | None = None
    outcome: str | None = None
    waits_for: str | None = None


class DependencyModel:
    """The graph of schedules, their ticks, and the runs that wait for runs."""

    def __init__(self, store: StoreModel, schedules: TickModel, backfills: BackfillModel) -> None:
        self.store, self.schedules, self.backfills = store, schedules, backfills
        self.edges: dict[int, list[ModelEdge]] = {}  # by schedule
        self.ticks: dict[tuple[int, int], ModelTick] = {}  # by schedule and tick
        self.parents: dict[tuple[int, int, int], bool] = {}  # (run, place, parent): whether the parent has succeeded

    # -- declarations --------------------------------------------------------------------------------------------------

    def declare(self, definition: ModelDefinition) -> None:
        """Stores `after` of a schedule, which is in the model already. Its ticks that wait do so for this."""
        if not (self.edges or definition.spec.after):
            return
        old = self.edges.pop(definition.id, [])
        edges = [ModelEdge(*entry) for entry in definition.spec.after]
        if edges:
            self.edges[definition.id] = edges
        self.refresh()
        if old and {edge.entry for edge in old} != {edge.entry for edge in edges}:
            freed = {tick for _, tick in self._waiting(definition)}
            if not {edge.entry for edge in old} <= {edge.entry for edge in edges} and not definition.spec.suspended:
                freed |= self._freed(definition, old)
            for key in self._waiting(definition):
                del self.ticks[key]
            for tick in freed:
                self._note_ready(definition, tick)

    def _freed(self, definition: ModelDefinition, old: list[ModelEdge]) -> set[int]:
        """Ticks that may have waited for an entry that is gone: those with live runs of the parents, and the newest."""
        freed = {
            run.tick
            for run in self.store.live()
            for edge in old
            if run.definition == edge.parent and run.trigger != "manual" and run.tick is not None
        }
        parents = {edge.parent for edge in self.edges.get(definition.id, ()) if edge.ticks == "Same"}
        ended = [tick for (parent, tick), known in self.ticks.items() if parent in parents and known.outcome]
        own = [tick for number, tick in self.ticks if number == definition.id]
        return freed | ({max(ended)} if ended and own and max(ended) > max(own) else set[int]())

    def _waiting(self, definition: ModelDefinition) -> list[tuple[int, int]]:
        """Its ticks whose runs are not created yet."""
        mine = (key for key in self.ticks if key[0] == definition.id)
        return [key for key in mine if self.ticks[key].waits_for and self.ticks[key].outcome is None]

    def refresh(self) -> None:
        """Finds the parents, and notes from now on the ends of their runs, and of no others."""
        by_name = self.schedules.by_name
        for edge in self._all_edges():
            if edge.parent is None and edge.name in by_name:
                edge.parent = by_name[edge.name].id
        parents = {edge.parent for edge in self._all_edges()}
        for definition in by_name.values():
            if definition.id in parents and not definition.has_dependents:
                for run in self.store.live():
                    run.has_dependents |= run.definition == definition.id and run.trigger != "manual"
            definition.has_dependents = definition.id in parents

    def remove(self, definition: ModelDefinition) -> None:
        """Its ticks that wait become no runs."""
        self.edges.pop(definition.id, None)
        for key in self._waiting(definition):
            del self.ticks[key]

    def _all_edges(self) -> list[ModelEdge]:
        return [edge for edges in self.edges.values() for edge in edges]

    # -- runs ----------------------------------------------------------------------------------------------------------

    def unusable_parent(self, parents: list[int]) -> int | None:
        """The first of these runs that will not succeed."""
        runs = self.store.runs
        wrong = [
            each for each in parents if each not in runs or not (runs[each].live or runs[each].status == "succeeded")
        ]
        return min(wrong, default=None)

    def cannot_be_replayed(self, run: ModelRun | None) -> bool:
        """Whether it waited for a run that will not succeed."""
        waited = [key[2] for key, done in self.parents.items() if run is not None and key[0] == run.id and not done]
        return self.unusable_parent(waited) is not None

    def wait(self, run: ModelRun, parents: list[int]) -> None:
        """A new run waits for these, which are live or have succeeded."""
        for place, number in enumerate(parents, 1):
            parent = self.store.runs[number]
            self.parents[run.id, place, number] = not parent.live
            parent.has_dependents |= parent.live
            run.waiting |= parent.live
        run.due = run.due and not run.waiting

    def replayed(self, run: ModelRun, new: ModelRun) -> None:
        """It waits for what the run waited for; what waits for a run that did not succeed waits for its replay."""
        for child, place, number in [key for key in self.parents if key[0] == run.id]:
            parent = self.store.runs[number]
            self.parents[new.id, place, number] = self.parents[child, place, number] or not parent.live
            new.waiting |= not self.parents[new.id, place, number]
        new.due = new.due and not new.waiting
        definition = next((each for each in self.schedules.by_name.values() if each.id == run.definition), None)
        new.has_dependents = definition is not None and definition.has_dependents
        for key in [key for key, done in self.parents.items() if key[2] == run.id and not done]:
            if run.status != "succeeded":
                del self.parents[key]
                self.parents[key[0], key[1], new.id] = False
                new.has_dependents = True

    def blocked(self, run: ModelRun) -> bool:
        """Whether a run that it waits for has not succeeded."""
        return any(
            self.store.runs[parent].status != "succeeded" for child, _, parent in self.parents if child == run.id
        )

    # -- maintenance ---------------------------------------------------------------------------------------------------

    def enqueue_dependents(self) -> tuple[int, list[tuple[int, int]]]:
        """How many runs may start now; the ticks that became runs."""
        ends, self.store.noted_ends = self.store.noted_ends, []
        started = self._start_runs({run for run, _, _, outcome in ends if outcome == "succeeded"})
        self._record(ends)
        for _, definition, tick, _ in ends:
            if definition is not None and tick is not None:
                self._pass_on(definition, tick)
        return started, self.create_runs()

    def _start_runs(self, succeeded: set[int]) -> int:
        for key in self.parents:
            self.parents[key] |= key[2] in succeeded
        now, started = self.store.rank_of_now(), 0
        for run in self.store.live():
            if run.waiting and all(done for key, done in self.parents.items() if key[0] == run.id):
                started += 1
                run.waiting = False
                run.due, run.rank = not run.later, now
        return started

    def _record(self, ends: list[NotedEnd]) -> None:
        for key in {(definition, tick) for _, definition, tick, _ in ends if definition and tick is not None}:
            found = [(outcome == "succeeded", run) for run, *of, outcome in ends if tuple(of) == key]
            success, run = max(found)
            known = self.ticks.setdefault(key, ModelTick())
            if known.outcome != "succeeded":
                known.run, known.outcome = run, "succeeded" if success else "ended"

    def _pass_on(self, parent: int, tick: int) -> None:
        for child, edges in self.edges.items():
            definition = self.schedules.definition(child)
            if not any(edge.parent == parent for edge in edges) or definition.removed:
                continue
            same = [edge for edge in edges if edge.ticks == "Same"]
            if any(edge.parent == parent for edge in same) and not definition.spec.suspended:
                self._note_ready(definition, tick)
            if any(edge.parent == parent and edge.ticks == "All" for edge in edges):
                for key, known in self.ticks.items():
                    if key[0] == child and known.waits_for == "ticks":
                        known.waits_for = "check"

    def _note_ready(self, definition: ModelDefinition, tick: int) -> None:
        """The tick becomes a run if all parents with the same tick have ended it."""
        edges = self.edges.get(definition.id, [])
        same = [edge for edge in edges if edge.ticks == "Same"]
        if same and all(self._has_ended(edge, tick) for edge in same):
            joins = len(same) < len(edges)
            self.ticks.setdefault((definition.id, tick), ModelTick(waits_for="check" if joins else "run"))

    def _has_ended(self, edge: ModelEdge, tick: int) -> bool:
        known = self.ticks.get((edge.parent or 0, tick), ModelTick())
        return known.outcome == "succeeded" or (edge.outcome == "Ended" and known.outcome is not None)

    def join_ticks(self) -> list[tuple[int, int]]:
        """Checks the ticks of schedules with `ticks: All`; those that became runs."""
        for (child, tick), known in self.ticks.items():
            if known.waits_for == "check":
                joined = [edge for edge in self.edges[child] if edge.ticks == "All"]
                sources = [child, *(edge.parent for edge in joined)]
                is_known = all(self._has_ticks(each) for each in sources)
                ended = is_known and all(self._has_ended(edge, tick) for edge in joined)
                known.waits_for = "run" if ended else "ticks"
        return self.create_runs()

    def _has_ticks(self, definition: int | None) -> bool:
        """Whether its ticks can be computed: a schedule, or the first one before it, has a cron expression."""
        for _ in range(10):
            if definition is None:
                return False
            if not self.schedules.definition(definition).spec.after:
                return True
            same = [edge.parent for edge in self.edges.get(definition, []) if edge.ticks == "Same"]
            definition = same[0] if same else None
        return False

    def create_runs(self) -> list[tuple[int, int]]:
        """The ticks that became runs, as the concurrency policies say."""
        self.store.rank_of_now()
        made: list[tuple[int, int]] = []
        for definition in sorted(self.schedules.by_name.values(), key=lambda each: each.id):
            ready = sorted(
                key[1] for key, tick in self.ticks.items() if key[0] == definition.id and tick.waits_for == "run"
            )
            if not ready or definition.removed or definition.spec.suspended or self.schedules.is_paused(definition):
                continue
            for tick in ready:
                self.ticks[definition.id, tick].waits_for = None
            new = tuple(tick for tick in ready if not self._has_run(definition, tick))
            made += [(definition.id, tick) for tick in self.schedules.apply_concurrency(definition, new)]
        return made

    def _has_run(self, definition: ModelDefinition, tick: int) -> bool:
        """Whether the tick became a run before, when the schedule had ticks of its own, or a backfill will run it."""
        return self.backfills.has(definition, tick) or any(
            (run.definition, run.tick) == (definition.id, tick) and run.status != "skipped"
            for run in self.store.runs.values()
        )

    def tick_became_run(self, run: int, definition: ModelDefinition, tick: int) -> None:
        """Its parents' runs of this tick are those that it has waited for."""
        if not definition.spec.after:
            return
        self.ticks[definition.id, tick].run = run
        for place, edge in enumerate(self.edges[definition.id], 1):
            known = self.ticks.get((edge.parent or 0, tick), ModelTick())
            if known.run is not None:
                self.parents[run, place, known.run] = True
