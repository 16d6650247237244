"""The Go worker keeps each promise, and the Go client enqueues in transactions."""

from __future__ import annotations

import re
import subprocess
from typing import TYPE_CHECKING

import psycopg
import pytest

from testbed.clients import go_worker
from testbed.processes import inherited_environment
from wakeboard.conformance.scenarios import SCENARIOS

if TYPE_CHECKING:
    from wakeboard.conformance.suite import ScenarioResult, Suite

pytestmark = pytest.mark.xdist_group("conformance of the Go worker")


@pytest.fixture(scope="module")
def results(suite: Suite) -> dict[str, ScenarioResult]:
    return {result.scenario: result for result in suite.run([str(go_worker())], SCENARIOS)}


@pytest.mark.parametrize("name", [scenario.name for scenario in SCENARIOS])
def test_the_go_worker_conforms(name: str, results: dict[str, ScenarioResult]) -> None:
    result = results[name]
    assert result.held, "\n".join([result.promise, result.found, *result.output])


# The arguments of wakeboard.schedule, and those that the program's schedules have.
ARGUMENTS = """
select array(select unnest(proargnames[:pronargs]) order by 1),
       array(select distinct key from wakeboard.list_schedules('options/*'), jsonb_object_keys(definition) as key
              order by 1)
  from pg_proc where oid = 'wakeboard.schedule'::regproc
"""


def test_the_go_client_writes_what_its_transactions_commit(database: str) -> None:
    environment = {**inherited_environment(), "TEST_DSN": database}
    printed = subprocess.check_output([str(go_worker("transactions"))], env=environment, text=True, timeout=60)
    runs, *ended, refused, schedules = printed.splitlines()
    first, again, created, later = runs.split()
    assert (again, created) == (first, "false")
    assert ended == ["false", "true"]
    assert refused.startswith('true schedule "0 25 * * *": the hour is 0-23')
    assert schedules == "true 3 1 1 false"
    with psycopg.connect(database) as conn:
        (run,) = conn.execute(
            "select id, payload, queue, priority, run_at = '2030-01-02 03:04:05Z', idempotency_key, limit_key,"
            " max_attempts, timeout_s from wakeboard.job_runs where job_type <> 'sum_up'"
        ).fetchall()
        assert run == (int(first), {"order": 42}, "mail", 5, True, "a 'key'", "smtp", 2, 30)
        parents = conn.execute("select run_id, parent_id from wakeboard.run_dependencies order by 1").fetchall()
        ((known, given),) = conn.execute(ARGUMENTS).fetchall()
    assert parents[0] == (int(later), int(first))
    assert len(parents) == 2  # the other one is of the transaction of database/sql
    assert given == known


def test_a_refusal_of_the_go_client_names_its_own_options(database: str) -> None:
    environment = {**inherited_environment(), "TEST_DSN": database}
    printed = subprocess.check_output(
        [str(go_worker("transactions")), "refusals"], env=environment, text=True, timeout=60
    )
    fractions = [line for line in printed.splitlines() if "write whole seconds, such as 90 * time.Second" in line]
    assert "Timeout Timeout is 60ns; write whole seconds, such as 90 * time.Second" in fractions
    assert len(fractions) == 3 * (7 + 2) + 1
    for line in printed.splitlines():
        words = re.sub(r"\"[^\"]*\"|\([^)]*\)|send_mail", "", line)
        assert re.match(r"(.+) \1 ", line), line
        assert "_" not in words, line
    assert "name name is" in printed
    assert "; UnscheduleAll takes a pattern" in printed
