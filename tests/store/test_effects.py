"""Steps and effects happen once, under a lease, in the transaction that records them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import anyio
import psycopg
import pytest

from wakeboard.errors import LeaseLost, Refused, WakeboardError
from wakeboard.store import effects

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import ThreadPoolExecutor

    from tests.store.sql_clients import Lease, SqlClient

pytestmark = pytest.mark.every_postgres


@pytest.fixture
def lease(admin: SqlClient, worker: SqlClient) -> Lease:
    admin.sql("create table bank (run bigint)")
    admin.enqueue()
    return worker.claim()[0]


def charged(admin: SqlClient) -> int:
    return admin.value("select count(*) from bank")


def charge(handler: SqlClient, lease: Lease) -> bool:
    """What a handler does in its own transaction."""
    with handler.conn.transaction():
        if handler.once(lease, "charge"):
            handler.sql("insert into bank values (%s)", lease.id)
            return True
        return False


# -- once --------------------------------------------------------------------------------------------------------------


def test_an_effect_happens_once_however_often_it_is_tried(admin: SqlClient, worker: SqlClient, lease: Lease) -> None:
    assert charge(worker, lease) is True
    assert charge(worker, lease) is False
    worker.fail(lease, delay_s=0)
    (again,) = worker.claim()
    assert charge(worker, again) is False
    assert charged(admin) == 1


def test_no_other_worker_gets_the_run_while_its_effect_is_under_way(
    admin: SqlClient, worker: SqlClient, other: SqlClient, open_client: Callable[[int], SqlClient], lease: Lease
) -> None:
    handler = open_client(worker.worker_id)
    with handler.conn.transaction():
        handler.once(lease, "charge")
        assert worker.renew(lease) == {}  # its own heartbeat passes
    admin.let_lapse(lease.id)
    with handler.conn.transaction():
        handler.once(lease, "mail")
        assert other.reap() == (0, 0, 0, 0)
    assert other.reap() == (1, 0, 0, 0)


def test_a_completion_waits_for_the_effects_transaction(
    admin: SqlClient,
    worker: SqlClient,
    open_client: Callable[[int], SqlClient],
    meanwhile: ThreadPoolExecutor,
    lease: Lease,
) -> None:
    handler = open_client(worker.worker_id)
    with handler.conn.transaction():
        handler.once(lease, "charge")
        completing = meanwhile.submit(worker.complete, lease)
        assert admin.wait_until_blocked(worker, completing.done)
    assert completing.result() == []


def test_the_uuid_is_part_of_the_lease(worker: SqlClient, lease: Lease) -> None:
    """A row that was restored from a backup under the same id is another run."""
    with pytest.raises(psycopg.Error, match="lost"):
        worker.sql("select once(%s, %s, gen_random_uuid(), %s, 'charge')", worker.worker_id, *lease)


@pytest.mark.parametrize("key", ["", "k" * 257])
def test_a_key_has_a_name_of_bounded_length(worker: SqlClient, lease: Lease, key: str) -> None:
    with pytest.raises(psycopg.errors.InvalidParameterValue, match="write 1 to 256 characters"):
        worker.once(lease, key)
    with pytest.raises(psycopg.errors.InvalidParameterValue, match="write 1 to 256 characters"):
        worker.effect(lease, key)


def test_once_in_python_sync_and_async(worker: SqlClient, lease: Lease) -> None:
    named = effects.Lease(worker.worker_id, lease.id, worker.run(lease.id).uuid, lease.epoch)

    async def asynchronously() -> list[bool]:
        async with await psycopg.AsyncConnection.connect(worker.dsn) as conn:
            return [await effects.once(conn, named, key) for key in ("a", "b", "b")]

    with psycopg.connect(worker.dsn) as conn:
        assert [effects.once(conn, named, "a"), effects.once(conn, named, "a")] == [True, False]
    assert anyio.run(asynchronously) == [False, True, False]
    with psycopg.connect(worker.dsn) as conn, pytest.raises(LeaseLost, match="roll this transaction back"):
        effects.once(conn, named._replace(epoch=7), "c")


# -- the effects table in another database -----------------------------------------------------------------------------


def test_in_a_database_of_its_own_an_application_gets_one_effect_per_run(
    empty_database: str, worker: SqlClient, lease: Lease
) -> None:
    named = effects.Lease(worker.worker_id, lease.id, worker.run(lease.id).uuid, lease.epoch)
    for _ in range(2):
        anyio.run(effects.install_effects_table, empty_database)
    with psycopg.connect(empty_database) as conn:
        answers = [effects.once(conn, named, "charge"), effects.once(conn, named._replace(epoch=9), "charge")]
    assert answers == [True, False]


def test_no_effects_table_is_made_beside_the_store(database: str) -> None:
    with pytest.raises(Refused, match="needs no table there"):
        anyio.run(effects.install_effects_table, database)


def test_without_an_effects_table_one_sentence_says_so(empty_database: str) -> None:
    from uuid import UUID

    with (
        psycopg.connect(empty_database) as conn,
        pytest.raises(WakeboardError, match="run `wakeboard effects install`"),
    ):
        effects.once(conn, effects.Lease(1, 1, UUID(int=1), 1), "charge")


# -- effects outside the database --------------------------------------------------------------------------------------


def test_an_external_effect_is_new_then_begun_then_done(worker: SqlClient, lease: Lease) -> None:
    assert [worker.effect(lease, "mail"), worker.effect(lease, "mail")] == ["new", "begun"]
    assert worker.effect(lease, "mail", done=True) == "done"
    assert [worker.effect(lease, "mail"), worker.effect(lease, "mail", done=True)] == ["done", "done"]
    assert worker.effect(lease, "another", done=True) == "done"


def test_an_effect_that_an_earlier_attempt_began_is_in_doubt(worker: SqlClient, lease: Lease) -> None:
    worker.effect(lease, "mail")
    worker.fail(lease, delay_s=0)
    (again,) = worker.claim()
    assert [worker.effect(again, "mail"), worker.effect(again, "mail")] == ["in doubt", "in doubt"]
    assert worker.effect(again, "mail", done=True) == "done"


# -- steps -------------------------------------------------------------------------------------------------------------


def test_a_step_that_an_earlier_attempt_completed_gives_its_result_back(worker: SqlClient, lease: Lease) -> None:
    assert worker.step(lease, "Render") == (False, None)
    assert worker.step(lease, "Render", {"pages": 3}) == (True, {"pages": 3})
    assert worker.step(lease, "Send") == (False, None)
    worker.fail(lease, delay_s=0)
    (again,) = worker.claim()
    assert worker.step(again, "Render") == (True, {"pages": 3})
    assert worker.step(again, "Send") == (False, None)


def test_a_step_that_returns_nothing_is_done_all_the_same(worker: SqlClient, lease: Lease) -> None:
    assert worker.step(lease, "Send", None) == (True, None)
    assert worker.step(lease, "Send") == (True, None)


def test_the_first_result_of_a_step_stays(worker: SqlClient, lease: Lease) -> None:
    worker.step(lease, "Render", 1)
    assert worker.step(lease, "Render", 2) == (True, 1)


def test_a_step_keeps_its_start_and_its_end(admin: SqlClient, worker: SqlClient, lease: Lease) -> None:
    worker.step(lease, "Render")
    started_at = admin.value("select started_at from job_steps")
    worker.step(lease, "Render", 1)
    row = admin.sql("select started_at, finished_at, lease_epoch from job_steps")[0]
    assert row.started_at == started_at < row.finished_at
    assert row.lease_epoch == lease.epoch


def test_a_steps_result_is_bounded(worker: SqlClient, lease: Lease) -> None:
    import random

    noise = "".join(random.choices("abcdefghijklmnopqrstuvwxyz0123456789", k=200_000))
    with pytest.raises(psycopg.errors.CheckViolation, match="a_step_result_is_at_most_64_KiB"):
        worker.step(lease, "Render", noise)
    assert worker.step(lease, "Render") == (False, None)


def test_an_effect_without_a_transaction_is_refused(worker: SqlClient, lease: Lease) -> None:
    """In autocommit mode the guard would commit alone, and the effect may never happen."""
    named = effects.Lease(worker.worker_id, lease.id, worker.run(lease.id).uuid, lease.epoch)
    with psycopg.connect(worker.dsn, autocommit=True) as conn:
        with pytest.raises(Refused, match="needs a transaction"):
            effects.once(conn, named, "charge")
        with conn.transaction():
            assert effects.once(conn, named, "charge") is True
