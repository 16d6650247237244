"""Compares the store with the model: every row of every table that an SQL function writes."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.store.state_machine.model import ModelRun, StoreModel
    from tests.store.tick_model import TickModel


def differences(model: StoreModel, ticks: TickModel, seen: dict[str, list[Any]]) -> dict[str, tuple[Any, Any]]:
    """By table: the rows that should not exist, and the rows that are missing."""
    expected = _expected(model, ticks)
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
        "bank": Counter(model.bank),
        "steps": Counter((*place, *_row(list(state))) for place, state in model.steps.items()),
        "definitions": Counter(
            (each.id, name, each.generation, each.cursor, each.removed, None) for name, each in ticks.by_name.items()
        ),
        "ticks": Counter((each.id, *skip) for each in ticks.by_name.values() for skip in each.skipped.elements()),
    }


def _live(run: ModelRun) -> tuple[Any, ...]:
    return (
        *(run.id, run.status, run.by, run.epoch, run.attempts, run.crashes, run.releases),
        *(run.limit_key is not None and run.by != 0, run.status == "dead", run.cancel, run.due, bool(run.expired)),
        *(run.error_type, run.queue, run.priority, run.limit_key, run.shared_limit_key),
        *(run.definition, run.trigger, run.tick),
    )


def _past(run: ModelRun) -> tuple[Any, ...]:
    return run.id, run.status, run.reason, run.by, run.epoch, run.attempts, run.crashes, run.releases


def _ticks(seen: dict[str, list[Any]]) -> Counter[Any]:
    """The skipped ticks, one by one."""
    skipped: Counter[Any] = Counter()
    for definition, reason, first, last, count in seen["skipped"]:
        assert last - first + 1 >= count > 0
        skipped.update((definition, int(first) + place, reason) for place in range(count))
    return skipped
