"""Every statement of the board has a bound: a lock of another session, or a database that hangs, holds no user up."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from typing import TYPE_CHECKING, Any

import pytest

from testbed.processes import wait_for
from tests.board.asgi import Client
from wakeboard.board import state
from wakeboard.cli import main

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.board.action_store import Store

pytestmark = pytest.mark.anyio

LOCKED = "nother transaction keeps a lock that this needs"


@pytest.fixture
def viewer(database: str, store: Store) -> Iterator[str]:
    """The DSN of a role that reads, and sees no sessions of others."""
    role = "wakeboard_lock_viewer"
    store.conn.execute(
        f"create role {role} login; grant usage on schema wakeboard to {role};"
        f" grant select on all tables in schema wakeboard to {role};"
        f" grant execute on all functions in schema wakeboard to {role}".encode()
    )
    yield database.replace("postgres@", f"{role}@")
    store.conn.execute(f"drop owned by {role}; drop role {role}".encode())


@pytest.fixture
def holder(store: Store) -> Iterator[Store]:
    """Another session, which holds locks in an open transaction."""
    another = store.another()
    another.conn.autocommit = False
    yield another
    another.conn.close()


def lock(holder: Store, table: str, mode: str = "share") -> None:
    holder.conn.execute(f"lock table {table} in {mode} mode".encode())


@pytest.mark.parametrize(
    ("path", "table", "form"),
    [
        ("/runs/{run}/retry", "audit_log", {}),
        ("/runs/{run}/discard", "job_run_history", {}),
        ("/runs/{run}/discard-and-replay", "audit_log", {"payload": '{"n": 1.50}'}),
        ("/schedules/{schedule}/run", "audit_log", {"payload": '{"n": 1.50}'}),
        ("/schedules/{schedule}/pause", "pauses", {}),
        ("/pause", "pauses", {"scope": "all"}),
        ("/schedules/pause-matching", "pauses", {"q": "nightly"}),
        ("/limits/set", "job_limits", {"key": "openai", "max_running": "5"}),
        ("/bulk/retry", "bulk_actions", {"q": "status:dead", "count": "1", "confirmed": "1"}),
    ],
)
async def test_an_action_that_meets_a_lock_keeps_its_form(
    client: Client, store: Store, holder: Store, path: str, table: str, form: dict[str, Any]
):
    run, schedule = store.run("dead"), store.schedule("shop/nightly")
    before = store.everything()
    lock(holder, table)

    async with asyncio.timeout(20):
        answer = await client.post(path.format(run=run, schedule=schedule), reason="the bank is <back>", **form)

    assert (answer.status, LOCKED in answer.words) == (503, True)
    assert "Nothing was changed" in answer.words
    for name, value in {"reason": "the bank is &lt;back&gt;", **form}.items():
        assert f'name="{name}" value="{value.replace(chr(34), "&#34;")}"' in answer.text
    assert store.everything() == before


@pytest.mark.parametrize(("mode", "status"), [("share", 200), ("access exclusive", 503)])
async def test_the_session_that_keeps_a_table_locked_is_named(
    viewer: str, holder: Store, mode: str, status: int, capsys: pytest.CaptureFixture[str]
):
    holder.conn.execute("set application_name = 'nightly report'")
    lock(holder, "job_runs", mode)
    client = Client(viewer)
    named = f"kept by pid {holder.conn.info.backend_pid} (user postgres, application_name nightly report"

    shown = await client.get("/")
    code = await asyncio.to_thread(main, ["check", "--json", "--dsn", viewer])

    await client.close()
    assert shown.status == status
    assert named in shown.words
    found = {each["check"]: each for each in json.loads(capsys.readouterr().out)}
    assert code == 1
    assert named in found["locks"]["message"]
    assert "pg_terminate_backend" in found["locks"]["hint"]


async def test_a_table_lock_that_waits_is_named_with_what_it_waits_for(client: Client, store: Store, holder: Store):
    waiting = store.another()
    waiting.conn.autocommit = False
    lock(holder, "job_runs", "access share")
    pids = [each.conn.info.backend_pid for each in (holder, waiting)]
    blocked = asyncio.create_task(
        asyncio.to_thread(waiting.conn.execute, "lock table job_runs in access exclusive mode")
    )
    waits = "select count(*) from pg_locks where not granted and pid = %s"
    await asyncio.to_thread(wait_for, lambda: store.value(waits, pids[1]) > 0)
    shown = await client.get("/")
    holder.conn.rollback()
    await asyncio.gather(blocked, return_exceptions=True)
    waiting.conn.close()
    for pid in pids:
        assert f"pid {pid} (" in shown.words


async def test_an_action_is_tried_again_from_the_page_that_kept_its_form(client: Client, store: Store, holder: Store):
    run = store.run("dead")
    lock(holder, "audit_log")
    answer = await client.post(f"/runs/{run}/retry", reason="the disk is back", next=f"/runs/{run}")
    holder.conn.rollback()

    assert f'action="/runs/{run}/retry"' in answer.text
    assert (await client.post(f"/runs/{run}/retry", reason="the disk is back")).status == 303
    assert store.audit() == [("ada", "board", "retry", "the disk is back")]


async def test_a_limit_is_set_with_its_rate_or_not_at_all(client: Client, store: Store):
    before = store.everything()

    store.conn.execute("alter table job_limits add constraint refused check (max_running is distinct from 7)")

    answer = await client.post("/limits/set", key="openai", rate="60/minute", max_running="7")

    assert answer.status == 422
    assert store.everything() == before


async def test_a_statement_that_takes_too_long_is_stopped_and_undone(
    database: str, store: Store, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(state, "ACTION_TIMEOUT_S", 1)
    client = Client(database)
    store.conn.execute(
        "create function public.slow() returns trigger language plpgsql as"
        " $$ begin perform pg_sleep(60); return new; end $$;"
        " create trigger slow before insert on wakeboard.pauses execute function public.slow()"
    )
    before = store.everything()

    answer = await client.post("/pause", scope="queue:mail", reason="the mail server moves")

    assert answer.status == 504
    assert "Nothing was changed" in answer.words
    assert "It was stopped after 1 s." in answer.words
    assert store.everything() == before
    await client.close()


async def test_pages_of_a_database_that_hangs_say_so(client: Client, store: Store):
    assert (await client.get("/schedules")).status == 200
    backends = [
        row[0] for row in store.rows("select pid from pg_stat_activity where application_name like 'wakeboard board%%'")
    ]
    for backend in backends:
        os.kill(backend, signal.SIGSTOP)
    try:
        async with asyncio.timeout(10):
            answer = await client.get("/schedules", q="other")
    finally:
        for backend in backends:
            os.kill(backend, signal.SIGCONT)

    assert answer.status == 504
    assert "did not answer" in answer.words
    assert (await client.get("/schedules", q="third")).status == 200
