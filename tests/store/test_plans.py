"""With any statistics, the hot functions scan indexes: no scan of the whole table, no bitmap, no sort of a backlog.

The plans are those of the statements inside the functions, as auto_explain logs them.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from psycopg.errors import Diagnostic

    from tests.store.sql_clients import Lease, SqlClient

pytestmark = pytest.mark.every_postgres

FILL: Final = """
set search_path = pg_catalog, wakeboard, pg_temp;
insert into job_runs (job_type, queue, priority, run_at, limit_key, start_before)
select case n % 3 when 0 then 'unknown' else 'ping' end, case n % 7 when 0 then 'mail' else 'default' end, 1 + n % 5,
       now() + (n % 11 - 8) * interval '1 h', case n % 10 when 0 then 'key-' || n % 100 end,
       case n % 50 when 1 then now() + interval '1 h' end
  from generate_series(1, 3000) as n
"""
CROWD: Final = (
    "update job_runs set crash_count = 2 where id % 97 = 0;"
    " update job_runs set status = 'dead', dead_at = now() where id % 89 = 0"
)

OF_RUNS: Final = (
    "oid = 'job_runs'::regclass or oid in (select indexrelid from pg_index where indrelid = 'job_runs'::regclass)"
)

# What the planner believes, and how it came to believe it.
STATISTICS: Final = {
    "never analysed": f"{FILL}; {CROWD}",
    "empty when analysed": f"analyze; {FILL}; {CROWD}",
    "one row when analysed": "insert into job_runs (job_type) values ('ping'); analyze; " + f"{FILL}; {CROWD}",
    "just analysed": f"{FILL}; {CROWD}; analyze",
    "another queue when analysed": f"{FILL}; update job_runs set queue = 'other'; analyze; delete from job_runs;"
    f" {FILL}; {CROWD}",
    "nearly all rows dead": f"{FILL}; {CROWD}; update job_runs set progress = 1; update job_runs set progress = 2;"
    " analyze; delete from job_runs where id > 400; analyze",
    "a few rows in a million pages": f"{FILL}; {CROWD}; analyze;"
    " update pg_class set reltuples = 3, relpages = 1000000 where oid = 'job_runs'::regclass",
    "ten million rows": f"{FILL}; {CROWD}; analyze; update pg_class set reltuples = 1e7, relpages = 200000"
    f" where {OF_RUNS}",
    "no rows at all": f"{FILL}; {CROWD}; analyze; update pg_class set reltuples = 0, relpages = 0"
    f" where {OF_RUNS}",
}  # fmt: skip


class Explained:
    """A client whose plans are written down: of every statement in every function."""

    def __init__(self, client: SqlClient) -> None:
        self.client = client
        self._plans: list[dict[str, Any]] = []
        client.conn.add_notice_handler(self._hear)
        client.sql("load 'auto_explain'")
        for setting, value in {
            "auto_explain.log_min_duration": "0",
            "auto_explain.log_nested_statements": "on",
            "auto_explain.log_format": "json",
            "client_min_messages": "log",
        }.items():
            client.sql(f"set {setting} = {value}")

    def _hear(self, notice: Diagnostic) -> None:
        found = re.search(r"plan:\n(\{.*)", notice.message_primary or "", re.DOTALL)
        if found:
            self._plans.append(json.loads(found[1])["Plan"])

    def of(self, call: Callable[[], Any]) -> tuple[Any, list[dict[str, Any]]]:
        """What a call answered, and every node of every plan that it took."""
        self._plans.clear()
        answer = call()
        return answer, [node for plan in self._plans for node in nodes(plan)]


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for child in plan.get("Plans", []):
        yield from nodes(child)


def reads_runs(node: dict[str, Any]) -> bool:
    return node.get("Relation Name") == "job_runs" or any(map(reads_runs, node.get("Plans", [])))


def faults(found: list[dict[str, Any]]) -> list[str]:
    """Nodes that read job_runs in another way than by an index from its beginning to its end."""
    problems: list[str] = []
    for node in found:
        kind, relation = node["Node Type"], node.get("Relation Name")
        if relation == "job_runs" and kind not in {"Index Scan", "Index Only Scan", "Tid Scan", "ModifyTable"}:
            problems.append(f"{kind} on job_runs")
        if relation == "job_runs" and kind.startswith("Index") and "Index Cond" not in node and not node.get("Filter"):
            problems.append(f"the whole of {node['Index Name']}")
        if kind in {"Bitmap Heap Scan", "Merge Join"} and reads_runs(node):
            problems.append(kind)
    return problems


@pytest.fixture
def explained(worker: SqlClient) -> Explained:
    return Explained(worker)


def sorted_runs(found: list[dict[str, Any]]) -> list[str]:
    """Sorts of what was read from job_runs; a sort key that is looked up there is none."""
    return [node["Node Type"] for node in found if "Sort" in node["Node Type"] and sorts_runs(node)]


def sorts_runs(node: dict[str, Any]) -> bool:
    inputs = [child for child in node.get("Plans", []) if child.get("Parent Relationship") != "SubPlan"]
    return node.get("Relation Name") == "job_runs" or any(map(sorts_runs, inputs))


@pytest.mark.parametrize("believed", STATISTICS)
def test_hot_functions_scan_indexes(admin: SqlClient, worker: SqlClient, explained: Explained, believed: str) -> None:
    for statement in STATISTICS[believed].split(";"):
        admin.sql(statement)
    queues = ["default", "mail"]
    plans: dict[str, list[dict[str, Any]]] = {}
    leases: list[Lease] = []
    for _ in range(7):  # from the sixth time on a plan may be generic
        more, plans["claim"] = explained.of(lambda: worker.claim(20, queues=queues))
        leases += more
    keys, plans["due_limit_keys"] = explained.of(lambda: worker.column("select due_limit_keys(%s)", queues))
    assert len(leases) > 40
    assert len(keys) > 3
    places = "'{default, mail}', '{5, 6}', array_fill('-infinity'::timestamptz, '{10}'), array_fill(0::bigint, '{10}')"
    explain = {
        "claim_oldest": lambda: worker.claim_oldest(9),
        "advance_scan": lambda: worker.sql(f"select advance_scan({places}, '{{ping}}', 10)"),
        "claim_limited": lambda: worker.claim_limited(*keys, count=9, queues=queues),
        "claim_quarantined": worker.claim_quarantined,
        "quarantined_since": lambda: worker.sql("select quarantined_since(%s, '{ping}')", queues),
        "renew": lambda: worker.renew(*leases, age_s=1.0),
        "complete": lambda: worker.complete(*leases[:10]),
        "fail": lambda: worker.fail(*leases[10:20]),
        "release": lambda: worker.release(*leases[20:30]),
        "backlog": lambda: worker.sql("select backlog(%s, 99999)", queues),
        "fetch_runs": lambda: worker.sql("select fetch_runs(%s, 60, %s, '{ping}', 50)", worker.worker_id, queues),
        "next_due": lambda: worker.sql("select next_due(%s, '{ping}', 99999)", queues),
        "skip_past_deadline": lambda: worker.sql("select skip_past_deadline()"),
        "step": lambda: worker.step(leases[30], "Render"),
        "once": lambda: worker.once(leases[30], "charge"),
        "reap": lambda: worker.sql("select reap(5)"),
        "report_worker_terminated": lambda: worker.sql("select report_worker_terminated(72, 'Error', after_id => 5)"),
    }
    for call, make in explain.items():
        _, plans[call] = explained.of(make)
    for call, found in plans.items():
        assert any(map(reads_runs, found)), f"{call}: no plan was logged"
        assert faults(found) == [], call
    for call in ("claim", "claim_oldest", "claim_limited", "complete"):
        assert sorted_runs(plans[call]) == [], call
    assert worker.renew(*leases[30:]) == {}


@pytest.mark.parametrize(
    "believed", ["", "analyze backfill_ticks", "insert into backfill_ticks values (9, now(), 9); analyze"]
)
def test_a_backfill_reads_only_the_ticks_that_become_runs(admin: SqlClient, believed: str) -> None:
    for statement in filter(None, believed.split(";")):
        admin.sql(statement)
    schedule = admin.define(schedule="* * * * *", cron_fields="-")
    ticks = "array(select generate_series(timestamptz '2026-01-01Z', '2026-01-03Z', '1 minute'))"
    declare = f"select create_backfill(%s, {ticks}, '2026-01-01Z', '2026-01-04Z')"
    _, found = Explained(admin).of(lambda: admin.sql(declare, schedule))
    updated = [
        node for node in found if node.get("Operation") == "Update" and node["Relation Name"] == "backfill_ticks"
    ]
    (joined,) = [nodes(plan) for plan in updated]
    inner = [node for node in joined if node.get("Parent Relationship") == "Inner"]
    assert [node["Node Type"] for node in inner] == ["Tid Scan"]
