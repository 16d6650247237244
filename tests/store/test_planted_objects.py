"""Objects that others create in a schema of the search path do not change what our statements mean."""

from __future__ import annotations

import ast
import re
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from inspect import getsource, iscoroutinefunction
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from tests.postgres_servers import running_pooler
from tests.store.sql_clients import SqlClient
from tests.store.test_roles import RoleDatabase
from wakeboard.actions.admin_api import AdminStore
from wakeboard.actions.queries.run_selection import RunQuery, read_selected_ids
from wakeboard.alerts import calls as alert_calls
from wakeboard.alerts.queries.alerts import read_alerts
from wakeboard.alerts.queries.page import AlertQueries
from wakeboard.alerts.rules.conditions import CONDITIONS
from wakeboard.backfills.queries import backfill, backfilled_ticks, backfills, history_begins
from wakeboard.backfills.rules import BackfillRange, BackfillWords
from wakeboard.dependencies import calls as dependency_calls
from wakeboard.engine.effects import Lease, once
from wakeboard.engine.enqueue import Job, enqueue, enqueue_many
from wakeboard.engine.maintenance_api import MaintenanceStore
from wakeboard.engine.run import Progress
from wakeboard.engine.worker_api import Failure, Release, Renewal, Worker, WorkerStore, renew
from wakeboard.errors import InvalidValue, WakeboardError
from wakeboard.health.queries.facts import read_installation
from wakeboard.limits import calls as limit_calls
from wakeboard.limits.queries import declared_limit_rows, list_limits
from wakeboard.limits.rules.rate import Rate
from wakeboard.logs.queries import (
    WantedLines,
    attempt_logs,
    lines_after,
    lines_before,
    log_retention,
    newest_started_run,
    store_batches,
)
from wakeboard.logs.rules import Batch
from wakeboard.schedules import calls as schedule_calls
from wakeboard.schedules.leader_api import ClaimedDelivery, LeaderStore, OperatorStore
from wakeboard.store.array_texts import text_array
from wakeboard.store.connection import connect, connect_blocking, require_schema
from wakeboard.store.migrate import migrate
from wakeboard.store.statements import checked_call
from wakeboard.views.queries.audit import AuditFilter, audit_rows, bulk_action, bulk_action_runs, bulk_actions
from wakeboard.views.queries.backlog import read_queues
from wakeboard.views.queries.failures import failures_since
from wakeboard.views.queries.finished_runs import finished_since
from wakeboard.views.queries.listings import Listings
from wakeboard.views.queries.recent_events import EventQueries
from wakeboard.views.queries.rollups import read_series, read_top
from wakeboard.views.queries.run_details import read_run_details
from wakeboard.views.queries.run_list import read_run_page
from wakeboard.views.queries.schedule_list import schedule_rows
from wakeboard.views.queries.schedule_state import schedule_states
from wakeboard.views.rules.run_search import parse_run_search

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Generator, Iterator

pytestmark = [pytest.mark.anyio, pytest.mark.every_postgres]

STORE: Final = Path(__file__).parents[2] / "wakeboard/store"
PLANTED: Final = (Path(__file__).parent / "planted_objects.sql").read_bytes()
NONCE: Final = 71
ME: Final = Worker(
    worker_id=NONCE, name="w", pool="p", host="h", version="1", queues=["default"], capacity=9, lease_s=60
)
RUNS: Final = "status:queued type:ping queue:default priority:3 -worker:w since:1h"
PING: Final = text_array(["ping"])
DAY: Final = timedelta(days=1)
NOW: Final = datetime(2026, 1, 1, tzinfo=UTC)


class Planted(RoleDatabase):
    """A migrated database with runs in it, whose roles have planted objects in their search path."""

    async def prepare(self) -> None:
        await migrate(self.superuser, roles=self.roles)
        self.seed()
        admin = SqlClient(self.superuser, NONCE)
        admin.register()
        run, *_ = admin.claim(1)
        admin.complete(run)
        admin.close()
        names = sorted({name for file in STORE.glob("*.py") for name in re.findall(r"\b([a-z_]+)\(", file.read_text())})
        with psycopg.connect(self.superuser, autocommit=True) as conn:
            conn.execute("select set_config('planted.names', %s, false)", [",".join(names)])
            conn.execute(PLANTED)

    def seed(self) -> None:
        """Two runs, of which one has a limit key, and one that is finished at the first call."""
        self.do(
            "select wakeboard.enqueue('ping')",
            "select wakeboard.enqueue('ping')",
            "select wakeboard.enqueue('ping', limit_key => 'one')",
        )

    def search(self, path: str) -> None:
        """The search path of every role, as an administrator may have set it."""
        self.do(*(f"alter role {name} set search_path = {path}" for name in self.names.values()))
        base = conninfo_to_dict(self.superuser)["dbname"]
        self.do(f"alter database {base} set search_path = {path}")


@pytest.fixture
async def planted(database: str) -> Any:
    made = Planted(database)
    await made.prepare()
    yield made
    made.close()


# -- every statement of the Python side, by role -----------------------------------------------------------------------


def reads(conn: Any) -> dict[str, Callable[[], Awaitable[Any]]]:
    """Every view of the store."""
    reports, live = Listings(conn), EventQueries(conn)
    return {
        "now": reports.now,
        "schedules": lambda: schedule_rows(conn, None, 9),
        "schedule_names": lambda: reports.schedule_names("x"),
        "schedules_called": lambda: reports.schedules_called([("x", "x")]),
        "taken_names": lambda: reports.taken_names([("x", "x")]),
        "stalled": lambda: reports.stalled("s"),
        "runs": lambda: reports.runs([1]),
        "payloads": lambda: reports.payloads([1]),
        "run_page": lambda: read_run_page(conn, parse_run_search(RUNS), namespaces=None, count=9),
        "selected_ids": lambda: read_selected_ids(conn, RunQuery(search=parse_run_search(RUNS), takes=["queued"])),
        "ids_of": lambda: reports.ids_of([]),
        "ids_between": lambda: reports.ids_between(UUID(int=0), UUID(int=9)),
        "limits": lambda: list_limits(conn),
        "declared_limit_rows": lambda: declared_limit_rows(conn, "s"),
        "pauses": reports.pauses,
        "pauses_of": lambda: reports.pauses_of(["all"]),
        "has_run": lambda: reports.has_run(1),
        "removals": reports.removals,
        "queues": reports.queues,
        "namespaces": reports.namespaces,
        "recent_events": lambda: live.recent_events(NOW),
        "counts_since": lambda: live.counts_since(NOW),
        "due_since": lambda: live.due_since(None, ["default"]),
        "running": lambda: live.running(["default"]),
        "report of a live run": lambda: read_run_details(conn, 2),
        "report of a finished run": lambda: read_run_details(conn, 1),
        "attempts with logs": lambda: attempt_logs(conn, 1, UUID(int=1)),
        "log lines": lambda: lines_after(conn, UUID(int=1), 1, 0, 9),
        "last log lines": lambda: lines_before(conn, UUID(int=1), 1, 9, 9, WantedLines(text="x")),
        "log retention": lambda: log_retention(conn),
        "newest started run": lambda: newest_started_run(conn, 1),
        "facts": lambda: schedule_states(conn, [1]),
        "health": lambda: read_installation(conn),
        "finished": lambda: finished_since(conn, NOW),
        "queue backlog": lambda: read_queues(conn, 60),
        "failures": lambda: failures_since(conn, NOW, "ping"),
        "audit rows": lambda: audit_rows(conn, AuditFilter(namespaces=["x"], run_id=1, since=NOW, outline=True), 9),
        "bulk actions": lambda: bulk_actions(conn, 9, unfinished=True),
        "bulk action": lambda: bulk_action(conn, 1),
        "backfills": lambda: backfills(conn, 9, namespaces=["x"]),
        "backfill": lambda: backfill(conn, 1),
        "backfilled ticks": lambda: backfilled_ticks(conn, 1),
        "begin of the history": lambda: history_begins(conn, 1),
        "runs of a bulk action": lambda: bulk_action_runs(conn, 1, 9, refused=True),
        "alerts": lambda: read_alerts(conn, resolved=True, limit=9),
        "open alerts": AlertQueries(conn, ["x"]).open,
        "resolved alerts": lambda: AlertQueries(conn, ["x"]).resolved(9, 1),
        "deliveries of alerts": lambda: AlertQueries(conn, None).deliveries([]),
        "alert rules": AlertQueries(conn, ["x"]).rules,
        "heartbeats": AlertQueries(conn, None).heartbeats,
        "counts of alerts": AlertQueries(conn, ["x"]).counts,
        "series": lambda: read_series(conn, "week", datetime.now(UTC), "job_type", ["ping"]),
        "minutes of a schedule": lambda: read_series(conn, "hour", datetime.now(UTC), "schedule", ["1"]),
        "top": lambda: read_top(conn, "week", datetime.now(UTC), "schedule", "volume"),
    }


async def _or_refused(asked: Awaitable[Any]) -> None:
    with suppress(InvalidValue):  # there is no such schedule
        await asked


RULE = {"name": "dead", "severity": "info", "interval_s": 0, "definition": {"dead": 1}}
NOTIFICATION = alert_calls.Notification("open", ["team"], "default")


async def _measure_each_condition(store: MaintenanceStore) -> None:
    for condition in CONDITIONS:
        await alert_calls.measure_alert(store, condition.name, DAY, 0.95, ("%", "%", "%"))


def maintenance(store: MaintenanceStore) -> dict[str, Callable[[], Awaitable[Any]]]:
    """The calls of maintenance that workers make too."""
    return {
        "now": store.now,
        "reap": lambda: store.reap(always=True),
        "due_definitions": lambda: schedule_calls.due_definitions(store),
        "enqueue_due_ticks": lambda: schedule_calls.enqueue_due_ticks(store, []),
        "enqueue_dependents": lambda: dependency_calls.enqueue_dependents(store),
        "joins_to_check": lambda: dependency_calls.joins_to_check(store, 100),
        "enqueue_joined_ticks": lambda: dependency_calls.enqueue_joined_ticks(
            store, [dependency_calls.JoinedTick(1, NOW, None, [(1, NOW)])]
        ),
        "skip_past_deadline": store.skip_past_deadline,
        "update_circuits": lambda: schedule_calls.update_circuits(store),
        "update_expectations": lambda: schedule_calls.update_expectations(store),
        "end_pauses": store.end_pauses,
        "create_partitions": store.create_partitions,
        "continue_backfills": store.continue_backfills,
        "roll_up": lambda: store.roll_up(0 * DAY),
        "claim_alert_rules": lambda: alert_calls.claim_alert_rules(store, [RULE]),
        "enqueue_heartbeats": lambda: alert_calls.enqueue_heartbeats(store, []),
        "unmeasured_rules": lambda: alert_calls.unmeasured_rules(store, {"dead": 90}),
        "record_measured_rules": lambda: alert_calls.record_measured_rules(store, ["dead"], NOW),
        "measure_alert": lambda: _measure_each_condition(store),
        "record_alert": lambda: alert_calls.record_alert(store, "dead", NOW, ("1 is dead", 1.0, ["a"]), NOTIFICATION),
        "drop_partitions": lambda: store.drop_partitions(90 * DAY),
        "delete_expired": lambda: store.delete_expired(90 * DAY, None, 90 * DAY),
    }


def synchronization(store: MaintenanceStore) -> dict[str, Callable[[], Awaitable[Any]]]:
    """The other calls of maintenance."""
    return {
        "filter_due_definitions": lambda: schedule_calls.filter_due_definitions(store, [1]),
        "list_definitions": lambda: schedule_calls.list_definitions(store, "s"),
        "sync_definitions": lambda: schedule_calls.sync_definitions(store, "s", []),
        "suspend_definitions": lambda: schedule_calls.suspend_definitions(store, "s", [1]),
        "remove_definitions": lambda: schedule_calls.remove_definitions(store, "s", [1], NOW),
        "declare_limits": lambda: limit_calls.declare_limits(store, "s", [{"key": "k", "max_running": 2}]),
        "set_retention": lambda: store.set_retention(90 * DAY, 7 * DAY, None, None),
        "set_misfire_grace": lambda: store.set_misfire_grace(DAY),
        "set_audit_retention": lambda: store.set_audit_retention(400 * DAY),
        "request_removal": lambda: schedule_calls.request_removal(store, "s", "hash", 1),
        "pop_changed_definitions": lambda: schedule_calls.pop_changed_definitions(store),
    }


def administration(store: AdminStore) -> dict[str, Callable[[], Awaitable[Any]]]:
    """The methods of `AdminStore`."""
    return {
        "cancel": lambda: store.cancel([99]),
        "retry": lambda: store.retry([99]),
        "discard": lambda: store.discard([99]),
        "revoke": lambda: store.revoke([99]),
        "release_effect": lambda: store.release_effect("unknown", "a test"),
        "replay": lambda: store.replay([99]),
        "run_now": lambda: store.run_now(99),
        "send_test_notification": lambda: store.send_test_notification("unknown", "default"),
        "silence_alert": lambda: store.silence_alert("dead", None),
        "pause": lambda: store.pause("queue:x"),
        "resume": lambda: store.resume("queue:x"),
        "set_limit": lambda: store.set_limit("k", 2),
        "set_rate_limit": lambda: store.set_rate_limit("k", Rate(2, 1)),
        "acknowledge_server_changes": lambda: store.acknowledge_server_changes(0),
        "confirm_removal": lambda: store.confirm_removal("s"),
        "reveal": lambda: store.reveal("payload", run_id=99),
        "discard_and_replay": lambda: store.discard_and_replay([99]),
        "create_bulk_action": lambda: store.create_bulk_action("retry", "select pg_catalog.int8(99)", {}),
        "run_bulk_action_batch": lambda: store.run_bulk_action_batch(1),
        "cancel_bulk_action": lambda: store.cancel_bulk_action(2),
        "plan_backfill": lambda: store.plan_backfill(99, []),
        "create_backfill": lambda: _or_refused(store.create_backfill(1, BackfillRange(NOW - DAY, NOW, [NOW - DAY]))),
        "change_backfill": lambda: store.change_backfill(1, "cancel"),
    }


async def act_as_worker(dsn: str) -> None:
    async with await connect(dsn) as conn:
        await require_schema(conn)
        for call in maintenance(MaintenanceStore(conn)).values():
            await call()
        worker_store = WorkerStore(conn, ME)
        await worker_store.register_worker(["ping"])
        rows, answer = await worker_store.fetch(PING, 40)
        limited, free = rows[0], rows[answer.limited]
        await worker_store.fetch(PING, 9, answer.state, alone=True)
        await worker_store.step(free[0], free[1], "part", "1")
        await worker_store.effect(free[0], free[1], "mail")
        await worker_store.consume(free[0], free[1], 1)
        assert await worker_store.trace_contexts([free[0]]) == []
        assert await worker_store.run_results(free[0], free[1]) == []
        with connect_blocking(dsn) as beat:
            store_batches(beat, [(Batch(str(UUID(int=1)), free[1], 1, 1, 1, 1, 20, 0.0, b"[]"), 0, 0)])
            assert (
                renew(
                    beat, ME, [Renewal(free[0], free[1]), Renewal(limited[0], limited[1], 0.1, {None: Progress(0.5)})]
                )
                == []
            )
        await worker_store.still_leased([(free[0], free[1])])
        assert await worker_store.complete([free[0]], [free[1]]) == []
        assert await worker_store.release([Release(limited[0], limited[1])]) == []
        assert await worker_store.fail([Failure(limited[0], limited[1], "failed", "E", "why")]) == [limited[0]]
        await worker_store.deregister_worker()


async def act_as_operator(dsn: str) -> None:
    async with await connect(dsn) as conn:
        for read in reads(conn).values():
            await read()
        store = OperatorStore(conn)
        await store.installation()
        assert await store.listen_for_released_leadership() in {True, False}
        led = await store.acquire_leadership("s", "me", "1", 60)
        await store.is_removal_confirmed("s")
        leader_store = LeaderStore(conn, "s", led.term)
        calls = maintenance(leader_store) | synchronization(leader_store) | administration(AdminStore(conn))
        for call in calls.values():
            await call()
        delivery = ClaimedDelivery(99, 1, UUID(int=0), {})
        assert await store.claim_alert_delivery(7, "default", ["nobody"]) is None
        assert await store.finish_alert_delivery(7, delivery, "sent", result={}) == "lost"
        await leader_store.finish_alert_delivery(7, delivery, "failed", error=("E", "why"), delay_s=1)
        await store.run_annotation_action(99, "run-now", "t", record_only=False)
        day = BackfillRange(NOW - DAY, NOW, [NOW - DAY])
        await store.run_annotation_action(
            99, "backfill", "t", record_only=False, backfill=(BackfillWords("2026-01-01", "2026-01-01"), day)
        )
        await leader_store.report_worker_terminated(99, "Error", "exit code 1", "pod")
        assert await leader_store.workers_of_pod("none") == []
        await store.release_leadership("s", led.term)


async def act_as_viewer(dsn: str) -> None:
    async with await connect(dsn) as conn:
        await require_schema(conn)
        for read in reads(conn).values():
            await read()


async def act_as_client(dsn: str) -> None:
    """In its own session, with its own search path."""
    job = Job("ping", {"a": 1}, queue="q", priority=1, run_at=NOW, idempotency_key="x", limit_key="y")
    with psycopg.connect(dsn, autocommit=True) as conn:
        assert enqueue(conn, "ping", {"a": 1}, run_at=NOW, idempotency_key="b").id
        assert enqueue_many(conn, [job])[0].id
        for _ in range(2):
            assert enqueue(conn, "ping", {"a": 1.0}, unique_for=9, unique_by=["a"], if_exists="replace").id
            assert enqueue_many(conn, [Job("ping", {"a": 2})], unique_for=9, if_exists="replace")[0].id
        with pytest.raises(WakeboardError, match="lease"), conn.transaction():
            once(conn, Lease(NONCE, 1, UUID(int=0), 1), "charge")


ACT: Final = {"operator": act_as_operator, "worker": act_as_worker, "client": act_as_client, "viewer": act_as_viewer}


@contextmanager
def way_to(planted: Planted, role: str, way: str, folder: Path) -> Generator[str]:
    """A role's DSN, straight to the server or through a pooler."""
    if way == "direct":
        yield planted.dsn(role)
        return
    with running_pooler(planted.superuser, folder, "transaction", planted.names[role]) as dsn:
        yield dsn


async def test_no_statement_calls_a_planted_object(planted: Planted, postgres_folder: Path) -> None:
    for path, way in (('"$user", public', "direct"), ("public, pg_catalog", "pooled")):
        planted.search(path)
        for role, act in ACT.items():
            planted.seed()
            with way_to(planted, role, way, postgres_folder) as dsn:
                await act(dsn)


async def test_migrating_again_calls_no_planted_object(planted: Planted) -> None:
    with (
        psycopg.connect(planted.dsn("operator"), autocommit=True) as conn,
        pytest.raises(psycopg.Error, match="planted"),
    ):
        conn.execute("select from wakeboard.job_runs where queue = %s::text", ["x"])
    planted.search("public, pg_catalog")
    planted.do("update wakeboard.installation set functions_hash = ''")
    assert (await migrate(planted.superuser, roles=planted.roles)).functions_written


async def test_every_statement_of_the_store_is_executed_here(database: str) -> None:
    async with await connect(database) as conn:
        store = AdminStore(conn)
        tried = {*reads(conn), *maintenance(store), *synchronization(store), *administration(store)}
    modules = (alert_calls, dependency_calls, limit_calls, schedule_calls)
    for kind in (Listings, EventQueries, MaintenanceStore, AdminStore, *modules):
        methods = {name for name, it in vars(kind).items() if iscoroutinefunction(it) and not name.startswith("_")}
        methods -= {"rows", "value"} | ({"call"} if kind in modules else set())
        assert methods <= tried, kind
    in_stories = getsource(act_as_worker) + getsource(act_as_operator) + "store.leadership_released("  # sends nothing
    for kind, word in ((WorkerStore, "worker_store"), (OperatorStore, "store")):
        for name, it in vars(kind).items():
            assert name.startswith("_") or not iscoroutinefunction(it) or f"{word}.{name}(" in in_stories, name


# -- the only ways to send a statement ---------------------------------------------------------------------------------

SENDS: Final = {"execute", "executemany", "copy", "stream"}


def returned_statements(function: ast.FunctionDef) -> set[str]:
    """What a function that returns (statement, values) returns as statements."""
    answers = [node.value for node in ast.walk(function) if isinstance(node, ast.Return)]
    answers = [
        part for each in answers for part in ([each.body, each.orelse] if isinstance(each, ast.IfExp) else [each])
    ]
    return {
        ast.unparse(each.elts[0] if isinstance(each, ast.Tuple) and each.elts else each) for each in answers if each
    }


def sent_elsewhere(file: Path) -> Iterator[str]:
    """What a module sends that is not a constant made by `checked`."""
    tree = ast.parse(file.read_text("utf-8"))
    calls = {
        target.id
        for statement in tree.body
        if isinstance(statement, ast.AnnAssign | ast.Assign)
        for target in ([statement.target] if isinstance(statement, ast.AnnAssign) else statement.targets)
        if isinstance(target, ast.Name) and ast.unparse(statement.value or target).startswith("checked_call(")
    }
    calls |= {
        f"*{node.name}"
        for node in tree.body
        if isinstance(node, ast.FunctionDef) and returned_statements(node) and returned_statements(node) <= calls
    }
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or node.func.attr not in SENDS:
            continue
        # `.copy()` copies a value
        if node.args and ast.unparse(node.args[0]).partition("(")[0] not in calls:
            yield f"{file.name}: {ast.unparse(node)}"


def test_no_other_module_sends_sql() -> None:
    """Except the conformance suite, whose database is its own. A rule of migrations covers what builds an index."""
    root = STORE.parents[1]
    files = [file for part in ("wakeboard", "worker", "operator") for file in (root / part).rglob("*.py")]
    files = [file for file in files if "conformance" not in file.parts]
    found = {line for file in files for line in sent_elsewhere(file)}
    pinned = (
        "statements.py:",
        "migrate.py:",
        "migration_locks.py:",
        "schema_differences.py:",
        "concurrent_indexes.py:",
    )
    in_pinned_transactions = {line for line in found if line.startswith(pinned)}
    effects = {line for line in found if line.startswith("effects.py:")}
    calls = {line for line in found if line.startswith("callers_connection.py:") and "execute(statement, " in line}
    http = {line for line in found if ".stream(path, query" in line}  # of an API server
    assert found - in_pinned_transactions - effects - calls - http == set()
    assert {line.partition("(")[2][:6] for line in effects} == {"files(", "_GRANT"}  # in a pinned transaction
    assert len(in_pinned_transactions) > 1


# -- what a call may look like -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "query",
    [
        "select wakeboard.deregister_worker(%s)",
        "select * from wakeboard.claim(%s, %s::pg_catalog.text[], %s::bigint[], always => %s)",
        "select id from wakeboard.enqueue(%s, array(select x from pg_catalog.unnest(%s::pg_catalog.text[]) as x))",
        "select id from wakeboard.installation",
    ],
)
def test_a_call_with_schemas_may_be_sent(query: str) -> None:
    assert checked_call(query) == query.encode()


@pytest.mark.parametrize(
    "query",
    [
        "select wakeboard.reap(%s) - %s",
        "select wakeboard.reap(%s) is distinct from %s",
        "select now()",
        "select public.now()",
        "select wakeboard.reap(now())",
        "select %s::text",
        "select %s::queue_name",
        "select %s::public.text",
        "select id from job_runs",
        "select id from public.job_runs",
        "select id from wakeboard.job_runs where id = %s",
        "select id from wakeboard.job_runs order by id",
        "select distinct id from wakeboard.job_runs",
        "select %s in (%s)",
        "select %s like %s",
        "select coalesce(%s, %s)",
        "select 'x'::pg_catalog.text",
        "select wakeboard.reap(%s); drop table x",
        "delete from wakeboard.job_runs",
        "select wakeboard.reap(%s) from wakeboard.job_runs union select %s",
    ],
)
def test_nothing_else_may_be_sent_as_a_call(query: str) -> None:
    with pytest.raises(ValueError, match="not a call"):
        checked_call(query)
