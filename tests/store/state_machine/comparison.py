"""Compares the store with the model: every row of every table that an SQL function writes."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.store.state_machine.backfills import BackfillModel
    from tests.store.state_machine.dependencies import DependencyModel
    from tests.store.state_machine.machine import StoreMachine
    from tests.store.state_machine.model import StoreModel
    from tests.store.state_machine.model_rows import ModelRun
    from tests.store.tick_model import ModelDefinition, TickModel


def differences(machine: StoreMachine, seen: dict[str, list[Any]]) -> dict[str, tuple[Any, Any]]:
    """By table: the rows that should not exist, and the rows that are missing."""
    expected = {
        **_expected(machine.model, machine.ticks),
        **_expected_of_dependencies(machine.dependencies),
        **_expected_of_backfills(machine.backfills),
    }
    found = {table: Counter(_row(row) for row in seen[table]) for table in expected if table != "ticks"}
    found["ticks"] = _ticks(seen)
    return {
        table: (list((found[table] - rows).elements()), list((rows - found[table]).elements()))
        for table, rows in expected.items()
        if rows != found[table]
    }


def _row(value: Any) -> Any:
    return tuple(map(_row, value)) if isinstance(value, list) else value  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]  JSON


def _expected(model: StoreModel, ticks: TickModel) -> dict[str, Counter[Any]]:
    return {
        "runs": Counter(_live(run) for run in model.runs.values() if run.live),
        "past": Counter(_past(run) for run in model.runs.values() if not run.live),
        "attempts": Counter((*lease, *how) for lease, how in model.attempts.items()),
        "effects": Counter((*place, *state) for place, state in model.effects.items()),
        "forever_effects": Counter((key, *state) for key, state in model.forever_effects.items()),
        "bank": Counter(model.bank),
        "steps": Counter((*place, *_row(list(state))) for place, state in model.steps.items()),
        "definitions": Counter(
            (each.id, name, each.generation, each.cursor, each.removed, None) for name, each in ticks.by_name.items()
        ),
        "circuits": Counter(_circuit(each) for each in ticks.by_name.values()),
        "ticks": Counter((each.id, *skip) for each in ticks.by_name.values() for skip in each.skipped.elements()),
    }


def _expected_of_dependencies(graph: DependencyModel) -> dict[str, Counter[Any]]:
    return {
        "schedule_ticks": Counter((*key, tick.run, tick.outcome, tick.waits_for) for key, tick in graph.ticks.items()),
        "parents": Counter((*key, succeeded) for key, succeeded in graph.parents.items()),
    }


def _expected_of_backfills(model: BackfillModel) -> dict[str, Counter[Any]]:
    jobs = model.by_id.values()
    return {
        "backfills": Counter(
            (job.id, job.total, model.created(job), job.paused, job.cancelled, job.finished) for job in jobs
        ),
        "backfill_ticks": Counter((job.id, tick, run) for job in jobs for tick, run in model.known_ticks(job)),
    }


def _live(run: ModelRun) -> tuple[Any, ...]:
    return (
        *(run.id, run.status, run.by, run.epoch, run.attempts, run.crashes, run.releases),
        *(run.limit_key is not None and run.by != 0, run.status == "dead", run.cancel, run.due, bool(run.expired)),
        *(run.error_type, run.queue, run.priority, run.limit_key, run.shared_limit_key),
        *(run.definition, run.trigger, run.tick if run.trigger in {"tick", "backfill"} else None),
        *(run.waiting, run.has_dependents),
    )


def _circuit(each: ModelDefinition) -> tuple[Any, ...]:
    circuit = each.circuit
    return each.id, circuit.is_open, circuit.probe, circuit.dead_probes if circuit.is_open else None


def _past(run: ModelRun) -> tuple[Any, ...]:
    return run.id, run.status, run.reason, run.by, run.epoch, run.attempts, run.crashes, run.releases


def _ticks(seen: dict[str, list[Any]]) -> Counter[Any]:
    """The skipped ticks, one by one."""
    skipped: Counter[Any] = Counter()
    for definition, reason, first, last, count in seen["skipped"]:
        assert last - first + 1 >= count > 0
        skipped.update((definition, int(first) + place, reason) for place in range(count))
    return skipped
