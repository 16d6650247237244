"""Objects that others create in a schema of the search path do not change what our statements mean."""

from __future__ import annotations

import ast
import re
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from inspect import getsource, iscoroutinefunction
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from tests.pooler import running_pooler
from tests.store.players import Player
from wakeboard.errors import WakeboardError
from wakeboard.store.board import Board
from wakeboard.store.connection import connect, connect_blocking, require_schema
from wakeboard.store.enqueueing import Job, enqueue, enqueue_many
from wakeboard.store.failures import failures_since
from wakeboard.store.leading import LedBoard, OperatorBoard
from wakeboard.store.leasing import Failure, Held, Leasing, Marks, Release, Worker, renew, text_array
from wakeboard.store.ledger import Lease, once
from wakeboard.store.live import Live
from wakeboard.store.migrate import Roles, migrate
from wakeboard.store.operator_vitals import finished_since
from wakeboard.store.reports import Reports, RunFilter
from wakeboard.store.run_report import report_run
from wakeboard.store.schedule_facts import facts_of
from wakeboard.store.statements import checked
from wakeboard.store.vitals import read_vitals

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Generator, Iterator

pytestmark = [pytest.mark.anyio, pytest.mark.every_postgres]

STORE: Final = Path(__file__).parents[2] / "wakeboard/store"
PLANTED: Final = (Path(__file__).parent / "planted_objects.sql").read_bytes()
ROLES: Final = ("operator", "worker", "client", "viewer")
NONCE: Final = 71
ME: Final = Worker(nonce=NONCE, name="w", pool="p", host="h", version="1", queues=["default"], capacity=9, lease_s=60)
PING: Final = text_array(["ping"])
DAY: Final = timedelta(days=1)
NOW: Final = datetime(2026, 1, 1, tzinfo=UTC)


class Garden:
    """A migrated database with runs in it, whose roles have planted objects in their search path."""

    def __init__(self, dsn: str) -> None:
        self.superuser = dsn
        self.base = str(conninfo_to_dict(dsn)["dbname"])
        self.names = {role: f"{self.base}_{role}" for role in ROLES}
        self.do(*(f"create role {name} login" for name in self.names.values()))

    async def prepare(self) -> None:
        await migrate(self.superuser, roles=Roles(**self.names))
        self.seed()
        person = Player(self.superuser, NONCE)
        person.register()
        run, *_ = person.claim(1)
        person.complete(run)
        person.close()
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
        self.do(f"alter database {self.base} set search_path = {path}")

    def dsn(self, role: str) -> str:
        return make_conninfo(self.superuser, user=self.names[role])

    def do(self, *statements: str) -> None:
        with psycopg.connect(self.superuser, autocommit=True) as conn:
            for statement in statements:
                conn.execute(statement.encode())

    def close(self) -> None:
        for name in self.names.values():
            self.do(f"drop owned by {name}; drop role {name}")


@pytest.fixture
async def garden(database: str) -> Any:
    made = Garden(database)
    await made.prepare()
    yield made
    made.close()


# -- every statement of the Python side, by role -----------------------------------------------------------------------


def reads(conn: Any) -> dict[str, Callable[[], Awaitable[Any]]]:
    """Every view of the store."""
    reports, live = Reports(conn), Live(conn)
    return {
        "now": reports.now,
        "schedules": reports.schedules,
        "schedule_names": lambda: reports.schedule_names("x"),
        "schedule_times": lambda: _or_nothing(reports.schedule_times(1)),
        "runs": lambda: reports.runs(RunFilter(job_type="ping", queue="default", since=NOW), 9),
        "run_ids": lambda: reports.run_ids(RunFilter(queue="default")),
        "ids_of": lambda: reports.ids_of([]),
        "ids_between": lambda: reports.ids_between(UUID(int=0), UUID(int=9)),
        "limits": reports.limits,
        "pauses": reports.pauses,
        "removals": reports.removals,
        "queues": reports.queues,
        "happenings": lambda: live.happenings(NOW),
        "due_since": lambda: live.due_since(None, ["default"]),
        "running": lambda: live.running(["default"]),
        "unserved": live.unserved,
        "report of a live run": lambda: report_run(conn, 2),
        "report of a finished run": lambda: report_run(conn, 1),
        "facts": lambda: facts_of(conn, [1]),
        "vitals": lambda: read_vitals(conn),
        "finished": lambda: finished_since(conn, NOW),
        "failures": lambda: failures_since(conn, NOW, "ping"),
    }


async def _or_nothing(asked: Awaitable[Any]) -> None:
    try:
        await asked
    except IndexError:
        return  # there is no such row


def maintenance(board: Board) -> dict[str, Callable[[], Awaitable[Any]]]:
    """Every move of `Board` that a worker makes too."""
    return {
        "now": board.now,
        "reap": lambda: board.reap(always=True),
        "due_definitions": board.due_definitions,
        "materialise": lambda: board.materialise([]),
        "skip_late": board.skip_late,
        "make_partitions": board.make_partitions,
        "drop_partitions": lambda: board.drop_partitions(90 * DAY),
        "tidy": lambda: board.tidy(90 * DAY, None, 90 * DAY),
    }


def decisions(board: Board) -> dict[str, Callable[[], Awaitable[Any]]]:
    """Every other move of `Board`."""
    return {
        "due_among": lambda: board.due_among([1]),
        "definitions_of": lambda: board.definitions_of("s"),
        "sync_definitions": lambda: board.sync_definitions("s", []),
        "stop_definitions": lambda: board.stop_definitions("s", [1]),
        "remove_definitions": lambda: board.remove_definitions("s", [1], NOW),
        "set_retention": lambda: board.set_retention(90 * DAY, 7 * DAY, None),
        "hold_removal": lambda: board.hold_removal("s", "hash", 1),
        "take_changes": board.take_changes,
        "cancel": lambda: board.cancel([99]),
        "retry": lambda: board.retry([99]),
        "discard": lambda: board.discard([99]),
        "replay": lambda: board.replay([99]),
        "run_now": lambda: board.run_now(99),
        "pause": lambda: board.pause("queue:x"),
        "resume": lambda: board.resume("queue:x"),
        "set_limit": lambda: board.set_limit("k", 2),
        "confirm_removal": lambda: board.confirm_removal("s"),
    }


async def act_as_worker(dsn: str) -> None:
    async with await connect(dsn) as conn:
        await require_schema(conn)
        for move in maintenance(Board(conn)).values():
            await move()
        leasing, marks = Leasing(conn, ME), Marks(ME.queues)
        await leasing.register(["ping"])
        (free, *_) = await leasing.claim(marks, PING, 9)
        await leasing.claim_oldest(marks, PING, 1)
        await leasing.look_ahead(marks, marks.pairs, PING)
        keys = await leasing.due_limit_keys("", 9)
        (limited,) = await leasing.claim_limited(PING, keys, 1)
        await leasing.claim_suspect(PING)
        await leasing.suspect_waits_s(PING)
        await leasing.next_due_s(PING, 5)
        await leasing.step(free[0], free[1], "part", "1")
        await leasing.effect(free[0], free[1], "mail")
        with connect_blocking(dsn) as beat:
            assert renew(beat, ME, [Held(free[0], free[1]), Held(limited[0], limited[1], 0.1, 0.5)]) == []
        await leasing.still_held([(free[0], free[1])])
        assert await leasing.complete([free[0]], free[1]) == []
        assert await leasing.release([Release(limited[0], limited[1])]) == []
        assert await leasing.fail([Failure(limited[0], limited[1], "failed", "E", "why")]) == [limited[0]]
        await leasing.goodbye()


async def act_as_operator(dsn: str) -> None:
    async with await connect(dsn) as conn:
        for read in reads(conn).values():
            await read()
        board = OperatorBoard(conn)
        await board.installation()
        assert await board.listen_for_resignations() in {True, False}
        await board.end_dead_leadership("s")
        led = await board.lead("s", "me", "1", 60)
        await board.hold_leader_session("s", led.term)
        await board.removal_is_confirmed("s")
        for move in (maintenance(LedBoard(conn, "s", led.term)) | decisions(LedBoard(conn, "s", led.term))).values():
            await move()
        await board.act(99, "run-now", "t", first_sight=False)
        await board.resign("s", led.term)


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
        with pytest.raises(WakeboardError, match="lease"), conn.transaction():
            once(conn, Lease(NONCE, 1, UUID(int=0), 1), "charge")


ACT: Final = {
    "operator": act_as_operator,
    "worker": act_as_worker,
    "client": act_as_client,
    "viewer": act_as_viewer,
}


@contextmanager
def way_to(garden: Garden, role: str, way: str, folder: Path) -> Generator[str]:
    """A role's DSN, straight to the server or through a pooler."""
    if way == "direct":
        yield garden.dsn(role)
        return
    with running_pooler(garden.superuser, folder, "transaction", garden.names[role]) as dsn:
        yield dsn


@pytest.mark.parametrize("way", ["direct", "pooled"])
async def test_no_statement_calls_a_planted_object(garden: Garden, way: str, postgres_folder: Path) -> None:
    for path in ('"$user", public', "public, pg_catalog"):
        garden.search(path)
        for role, act in ACT.items():
            garden.seed()
            with way_to(garden, role, way, postgres_folder) as dsn:
                await act(dsn)


async def test_a_planted_object_would_be_noticed(garden: Garden) -> None:
    """What these tests look for is there: a plain query of an operator's trips over it."""
    with (
        psycopg.connect(garden.dsn("operator"), autocommit=True) as conn,
        pytest.raises(psycopg.Error, match="planted"),
    ):
        conn.execute("select from wakeboard.job_runs where queue = %s::text", ["x"])


async def test_migrating_again_calls_no_planted_object(garden: Garden) -> None:
    garden.search("public, pg_catalog")
    garden.do("update wakeboard.installation set functions_hash = ''")
    assert (await migrate(garden.superuser, roles=Roles(**garden.names))).moves_written


async def test_every_statement_of_the_store_is_tried_here(database: str) -> None:
    async with await connect(database) as conn:
        tried = {*reads(conn), *maintenance(Board(conn)), *decisions(Board(conn))}
    for kind in (Reports, Live, Board):
        methods = {name for name, it in vars(kind).items() if iscoroutinefunction(it) and not name.startswith("_")}
        assert methods <= tried, kind
    in_stories = getsource(act_as_worker) + getsource(act_as_operator) + "board.resigned("  # which sends nothing
    for kind, word in ((Leasing, "leasing"), (OperatorBoard, "board")):
        for name, it in vars(kind).items():
            assert name.startswith("_") or not iscoroutinefunction(it) or f"{word}.{name}(" in in_stories, name


# -- the only ways to send a statement ---------------------------------------------------------------------------------

SENDS: Final = {"execute", "executemany", "copy", "stream"}


def sent_elsewhere(file: Path) -> Iterator[str]:
    """What a module sends that is not a constant made by `checked`."""
    tree = ast.parse(file.read_text("utf-8"))
    calls = {
        target.id
        for statement in tree.body
        if isinstance(statement, ast.AnnAssign | ast.Assign)
        for target in ([statement.target] if isinstance(statement, ast.AnnAssign) else statement.targets)
        if isinstance(target, ast.Name) and ast.unparse(statement.value or target).startswith("checked(")
    }
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or node.func.attr not in SENDS:
            continue
        if node.args and ast.unparse(node.args[0]) not in calls:  # `.copy()` copies a value
            yield f"{file.name}: {ast.unparse(node)}"


def test_no_other_module_sends_sql() -> None:
    root = STORE.parents[1]
    files = [file for part in ("wakeboard", "worker", "operator") for file in (root / part).rglob("*.py")]
    found = {line for file in files for line in sent_elsewhere(file)}
    in_pinned_transactions = {line for line in found if line.startswith(("statements.py:", "migrate.py:"))}
    ledger = {line for line in found if line.startswith("ledger.py:")}
    assert found - in_pinned_transactions - ledger == set()
    assert {line.partition("(")[2][:6] for line in ledger} == {"files(", "_GRANT"}  # in `install_ledger`, pinned
    assert len(in_pinned_transactions) > 1


# -- what a call may look like -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "query",
    [
        "select wakeboard.goodbye(%s)",
        "select * from wakeboard.claim(%s, %s::pg_catalog.text[], %s::bigint[], always => %s)",
        "select id from wakeboard.enqueue(%s, array(select x from pg_catalog.unnest(%s::pg_catalog.text[]) as x))",
        "select id from wakeboard.installation",
    ],
)
def test_a_call_with_schemas_may_be_sent(query: str) -> None:
    assert checked(query) == query.encode()


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
        checked(query)
