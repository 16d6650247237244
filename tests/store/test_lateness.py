"""How long a run has waited, in every figure: at most since it was enqueued, and for a tick since its time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from wakeboard.health.queries.facts import read_due
from wakeboard.store.connection import connect
from wakeboard.views.queries.overview import OverviewQueries
from wakeboard.views.queries.run_situation import read_run_situation
from wakeboard.views.rules.run_explanation import explain_run

if TYPE_CHECKING:
    from tests.store.sql_clients import SqlClient

pytestmark = pytest.mark.anyio

LATE = "select value from measure_alert('late', '1 second')"
LATENESS = "select min(bucket) from run_facts('-infinity', 'infinity') where measure = 'lateness'"


async def figures(admin: SqlClient, run: int) -> dict[str, float]:
    """For how many seconds the run has waited, by each figure."""
    now = admin.value("select now()")
    async with await connect(admin.dsn) as conn:
        counts = await OverviewQueries(conn, None).counts()
        (due,) = await read_due(conn)
        situation = await read_run_situation(conn, run)
    assert counts.oldest_due
    assert situation
    explained = next(fact.moment for fact in explain_run(situation) if fact.name == "due")
    assert explained
    moments = {"overview": counts.oldest_due, "check": due.oldest, "explain": explained}
    return {name: (now - at).total_seconds() for name, at in moments.items()} | {"alert": admin.value(LATE)}


@pytest.mark.parametrize(("trigger", "waited_s"), [("application", 0), ("tick", 3600)])
async def test_a_run_is_late_since_its_enqueue_a_tick_since_its_time(
    admin: SqlClient, worker: SqlClient, trigger: str, waited_s: int
) -> None:
    run = admin.enqueue()
    admin.sql("update job_runs set run_at = now() - interval '1 hour', trigger = %s::run_trigger", trigger)
    assert await figures(admin, run) == {
        name: pytest.approx(waited_s, abs=60) for name in ("overview", "check", "explain", "alert")
    }
    worker.complete(worker.claims(run))
    seconds = 2 ** (admin.value(LATENESS) / 8) / 1000
    assert seconds == pytest.approx(waited_s, rel=0.1, abs=60)
