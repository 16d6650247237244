"""`wakeboard explain` and the board's pages scan indexes and read a bounded number of runs, however many there are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.store.test_plans import Explained, faults, reads_runs
from wakeboard.views.queries.run_situation import LIMITS, OTHERS
from wakeboard.views.queries.schedule_situation import LIVE_RUNS
from wakeboard.views.rules.run_explanation import MOST_AHEAD

if TYPE_CHECKING:
    from tests.store.sql_clients import SqlClient

pytestmark = pytest.mark.every_postgres

MANY: Final = """
set search_path = pg_catalog, wakeboard, pg_temp;
insert into job_runs (job_type, queue, priority, limit_key)
select 'ping', case n % 7 when 0 then 'mail' else 'default' end, 1 + n % 5, case n % 3 when 0 then 'key-' || n % 5 end
  from generate_series(1, 60000) as n
"""


def test_an_explanation_reads_a_bounded_number_of_runs(worker: SqlClient) -> None:
    worker.sql(MANY)
    worker.sql("update job_runs set definition_id = 1 where id % 1000 = 1")
    worker.sql("analyze wakeboard.job_runs")
    explained = Explained(worker)
    worker.sql("set auto_explain.log_analyze = on")
    for which in ("limit_key is null", "limit_key is not null", "definition_id is not null"):
        run = worker.value(f"select max(id) from job_runs where {which} and priority < 5")
        for query in (LIMITS, OTHERS, LIVE_RUNS):
            of_run, of_schedule = {"id": run, "most": MOST_AHEAD + 1, "shown": 5}, {"id": 1, "most": 9, "shown": 5}
            values = of_schedule if query == LIVE_RUNS else of_run

            _, found = explained.of(
                lambda query=query, values=values: worker.conn.execute(query.encode(), values).fetchall()
            )

            assert any(map(reads_runs, found)), "no plan was heard"
            assert faults(found) == []
            read = [node for node in found if node.get("Relation Name") == "job_runs"]
            assert sum(map(_rows, read)) <= 5 * (MOST_AHEAD + 1) + 1


def _rows(node: dict[str, Any]) -> float:
    """The rows that it returned or filtered out."""
    return (node["Actual Rows"] + node.get("Rows Removed by Filter", 0)) * node["Actual Loops"]
