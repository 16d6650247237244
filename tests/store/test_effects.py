"""Steps and effects happen once, under a lease, in the transaction that records them."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import uuid4

import anyio
import psycopg
import pytest

from wakeboard.engine import effects
from wakeboard.errors import EffectInDoubt, LeaseLost, Refused, WakeboardError
from wakeboard.store.database_errors import translated

if TYPE_CHECKING:
    from tests.store.sql_clients import Lease, SqlClient


@pytest.fixture
def lease(admin: SqlClient, worker: SqlClient) -> Lease:
    admin.sql("create table bank (run bigint)")
    admin.enqueue()
    return worker.claim()[0]


# -- once --------------------------------------------------------------------------------------------------------------


def test_the_uuid_is_part_of_the_lease(worker: SqlClient, lease: Lease) -> None:
    """A row that was restored from a backup under the same id is another run."""
    with pytest.raises(psycopg.Error, match="lost"):
        worker.sql("select once(%s, %s, gen_random_uuid(), %s, 'charge')", worker.worker_id, *lease)


@pytest.mark.parametrize("uuid", ["'00000000-0000-0000-0000-000000000000'", "uuid"])
def test_a_run_without_a_lease_has_no_effect(admin: SqlClient, worker: SqlClient, uuid: str) -> None:
    """Worker 0 and epoch 0 name no lease: an application could book the effects of others."""
    run = admin.enqueue()
    with pytest.raises(psycopg.Error, match="does not know the lease"):
        worker.sql(f"select once(0, id, {uuid}, 0, 'charge') from job_runs where id = %s", run)


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
            return [(await effects.once(conn, named, key)).is_first for key in ("a", "b", "b")]

    with psycopg.connect(worker.dsn) as conn:
        assert [effects.once(conn, named, "a").is_first for _ in range(2)] == [True, False]
    assert anyio.run(asynchronously) == [False, True, False]
    with psycopg.connect(worker.dsn) as conn, pytest.raises(LeaseLost, match="roll this transaction back"):
        effects.once(conn, named._replace(epoch=7), "c")


# -- once for ever -----------------------------------------------------------------------------------------------------


def test_an_effect_once_for_ever_belongs_to_one_running_attempt(admin: SqlClient, worker: SqlClient) -> None:
    """Another run waits for it while it runs, takes it over in doubt when it has crashed, and never repeats it."""
    for _ in range(2):
        admin.enqueue()
    first, second = worker.claim()
    assert [worker.effect_forever(lease, "invoice:812") for lease in (first, second, first)] == ["new", "held", "begun"]
    admin.sql("update job_runs set locked_until = now() - interval '1 day' where id = %s", first.id)
    assert worker.effect_forever(second, "invoice:812") == "held"  # only the reaper says that a lease is lost
    admin.reap()
    assert worker.effect_forever(second, "invoice:812") == "in doubt"
    again = worker.claims(first.id)
    assert worker.effect_forever(again, "invoice:812") == "held"
    assert admin.value("select release_effect('invoice:812', 'a test')").endswith("cancel the run, or wait for its end")
    assert worker.effect_forever(second, "invoice:812", done=True) == "done"
    assert worker.effect_forever(again, "invoice:812") == "done"
    assert worker.once(again, "invoice:812", forever=True) is False
    keys = admin.column("select distinct first_run_uuid from job_forever_effects")
    assert keys == [worker.run(first.id).uuid]
    for reason in ("", " ", None):
        with pytest.raises(psycopg.errors.InvalidParameterValue, match="why the effect may happen again"):
            admin.sql("select release_effect('invoice:812', %s)", reason)
    assert admin.value("select release_effect('invoice:812', 'the bank returned it')") == "released"
    assert admin.sql("select action, scope, reason from audit_log")[-1] == (
        *("release_effect", "invoice:812", "the bank returned it"),
    )
    assert worker.effect_forever(again, "invoice:812") == "new"


def test_only_the_attempt_that_began_an_effect_reports_it_as_done(admin: SqlClient, worker: SqlClient) -> None:
    for _ in range(2):
        admin.enqueue()
    first, second = worker.claim()
    assert worker.effect_forever(first, "invoice:812") == "new"
    with pytest.raises(psycopg.Error, match="another attempt has begun the effect invoice:812 since"):
        worker.effect_forever(second, "invoice:812", done=True)
    assert [worker.effect_forever(first, "invoice:812", done=True) for _ in range(2)] == ["done", "done"]
    assert admin.value("select release_effect('invoice:812', 'a test')") == "released"
    assert worker.effect_forever(second, "invoice:812") == "new"
    with pytest.raises(psycopg.Error) as refusal:  # the reply to the first one was lost
        worker.effect_forever(first, "invoice:812", done=True)
    assert refusal.value.sqlstate == "WB006"
    assert worker.effect_forever(second, "invoice:812") == "begun"
    assert worker.effect_forever(second, "invoice:812", done=True) == "done"


@pytest.mark.parametrize("ended", [True, False])
def test_the_same_run_has_a_released_effect_under_another_provider_key(
    admin: SqlClient, worker: SqlClient, ended: bool
) -> None:
    namespace = "select first_run_uuid from job_forever_effects"
    admin.enqueue()
    (lease,) = worker.claim()
    assert worker.effect_forever(lease, "invoice:812") == "new"
    if ended:
        worker.effect_forever(lease, "invoice:812", done=True)
    admin.sql("update job_runs set locked_until = now() - interval '1 day'")
    admin.reap()
    former = admin.value(namespace)
    assert [admin.value("select release_effect('invoice:812', 'a test')")[:8] for _ in range(2)] == [
        "released",
        "refused:",
    ]
    again = worker.claims(lease.id)
    assert worker.effect_forever(again, "invoice:812") == "new"
    now = admin.value(namespace)
    assert now != former
    assert worker.effect_forever(again, "invoice:812", done=True) == "done"
    assert (worker.effect_forever(again, "invoice:812"), admin.value(namespace)) == ("done", now)


def test_once_for_ever_has_an_effect_that_was_released(admin: SqlClient, worker: SqlClient) -> None:
    admin.enqueue()
    (lease,) = worker.claim()
    assert worker.once(lease, "invoice:812", forever=True) is True
    admin.sql("select release_effect('invoice:812', 'a test')")
    answers = [worker.once(lease, "invoice:812", forever=True) for _ in range(2)]
    assert (answers, admin.column("select run_id from job_forever_effects")) == ([True, False], [lease.id])


def test_once_for_ever_never_answers_of_an_effect_whose_end_is_unknown(admin: SqlClient, worker: SqlClient) -> None:
    for _ in range(2):
        admin.enqueue()
    first, second = worker.claim()
    assert worker.effect_forever(first, "invoice:812") == "new"
    for _ in ("held", "in doubt"):
        with pytest.raises(psycopg.Error, match=f"run {first.id} began the effect") as refused:
            worker.once(second, "invoice:812", forever=True)
        assert type(translated(refused.value)) is EffectInDoubt
        admin.sql("update job_runs set locked_until = now() - interval '1 day' where id = %s", first.id)
        admin.reap()


# -- the effects table in another database -----------------------------------------------------------------------------


def test_an_application_database_gets_one_effect_per_run(empty_database: str, worker: SqlClient, lease: Lease) -> None:
    named = effects.Lease(worker.worker_id, lease.id, worker.run(lease.id).uuid, lease.epoch)
    for _ in range(2):
        anyio.run(effects.install_effects_table, empty_database)
    with psycopg.connect(empty_database) as conn:
        answers = [effects.once(conn, each, "charge").is_first for each in (named, named._replace(epoch=9))]
        forever = [
            effects.once(conn, each, "invoice", forever=True).is_first
            for each in (named, named._replace(run_uuid=uuid4()))
        ]
    assert answers == forever == [True, False]


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


# -- steps -------------------------------------------------------------------------------------------------------------


def test_a_step_keeps_its_start_and_its_end(admin: SqlClient, worker: SqlClient, lease: Lease) -> None:
    worker.step(lease, "Render")
    started_at = admin.value("select started_at from job_steps")
    worker.step(lease, "Render", 1)
    row = admin.sql("select started_at, finished_at, lease_epoch from job_steps")[0]
    assert row.started_at == started_at < row.finished_at
    assert row.lease_epoch == lease.epoch


def test_an_effect_without_a_transaction_is_refused(worker: SqlClient, lease: Lease) -> None:
    """In autocommit mode the guard would commit alone, and the effect may never happen."""
    named = effects.Lease(worker.worker_id, lease.id, worker.run(lease.id).uuid, lease.epoch)
    with psycopg.connect(worker.dsn, autocommit=True) as conn:
        with pytest.raises(Refused, match="needs a transaction"):
            effects.once(conn, named, "charge")
        with conn.transaction():
            assert effects.once(conn, named, "charge").is_first
