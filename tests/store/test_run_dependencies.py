"""A run waits until others have succeeded, and its handler reads their results."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from tests.store.dependencies import lease, pass_on, succeed
from wakeboard.engine.enqueue import Job, enqueue, enqueue_many
from wakeboard.errors import InvalidValue, Locked, WakeboardError

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

    from tests.store.sql_clients import SqlClient


def test_each_run_of_enqueue_many_waits_for_its_own_parents(admin: SqlClient, worker: SqlClient):
    with admin.conn.transaction():
        pay, pack = enqueue_many(admin.conn, [Job("ping"), Job("ping", priority=4)])
        jobs = [
            Job("ping", after=[pay, pack.id]),
            Job("ping", limit_key="k"),
            Job("ping", after=[]),
            Job("ping", after=[pack]),
        ]
        both, free, empty, packed = enqueue_many(admin.conn, jobs)
    due = "select id from job_runs where run_at <= now() order by id"
    assert admin.column(due) == [pay.id, pack.id, free.id, empty.id]
    admin.sql("select cancel(%s)", [pay.id])
    succeed(worker, pack.id)
    assert pass_on(worker).started == 1
    assert admin.column("select id from job_runs where run_at <= now() and id = any(%s)", [both.id, packed.id]) == [
        packed.id
    ]


def test_an_existing_run_of_enqueue_many_is_left_alone(admin: SqlClient):
    jobs = [Job("ping", idempotency_key="a"), Job("ping", idempotency_key="b")]
    first, parent = enqueue_many(admin.conn, jobs)
    again = enqueue_many(admin.conn, [Job("ping", idempotency_key="a", after=[parent]), Job("ping", after=[first])])
    assert [run.created for run in again] == [False, True]
    assert admin.column("select run_id from run_dependencies") == [again[1].id]
    with pytest.raises(WakeboardError, match="holds run 99999, which does not exist; write ids that enqueue returned"):
        enqueue_many(admin.conn, [Job("ping"), Job("ping", after=[99999])])
    with pytest.raises(InvalidValue, match=r"after is 7; write a list, such as \[7\]"):
        enqueue_many(admin.conn, [Job("ping", after=7)])  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("of", ["enqueue", "enqueue_many"])
@pytest.mark.parametrize("ended", [False, True])
def test_another_run_with_the_id_of_a_lost_parent_is_refused(admin: SqlClient, worker: SqlClient, of: str, ended: bool):
    """The database loses its last commits, as after a failover, and gives the ids of lost runs again."""
    lost = enqueue(admin.conn, "ping") if of == "enqueue" else enqueue_many(admin.conn, [Job("ping")])[0]
    admin.sql("truncate job_runs")
    admin.sql("select setval('job_runs_id_seq', %s, false)", lost.id)
    foreign = enqueue(admin.conn, "ping")
    assert foreign.id == lost.id
    if ended:
        succeed(worker, foreign.id)
    with pytest.raises(InvalidValue, match=f"after holds run {lost.id} with the uuid {lost.uuid}, which the database"):
        enqueue(admin.conn, "ping", after=[foreign, lost])
    with pytest.raises(InvalidValue, match=rf"jobs\[1\] \(ping\): after holds run {lost.id} with the"):
        enqueue_many(admin.conn, [Job("ping", after=[foreign]), Job("ping", after=[lost])])
    made = enqueue_many(admin.conn, [Job("ping"), Job("ping", after=[foreign, foreign.id])])
    assert enqueue(admin.conn, "ping", after=[foreign.id, *made]).created, "ids alone still name runs"


def test_enqueue_many_returns_the_uuids_of_all_runs(admin: SqlClient):
    """By each of its paths: equal runs, different ones, keys, and unique windows, which find earlier runs as well."""
    equal = enqueue_many(admin.conn, [Job("ping")] * 2)
    different = enqueue_many(admin.conn, [Job("ping", priority=4), Job("pong", after=[equal[0]])])
    keyed = [Job("ping", idempotency_key="a"), Job("ping")]
    windows = [Job("ping", {"n": 1}), Job("ping", {"n": 1}), Job("ping", {"n": 2})]
    keys = [enqueue_many(admin.conn, keyed) for _ in range(2)]
    unique = [enqueue_many(admin.conn, windows, unique_for=60, if_exists=each) for each in ("keep", "keep", "replace")]
    made = [run for runs in (equal, different, *keys, *unique) for run in runs]
    assert {(run.id, run.uuid) for run in made} == set(admin.sql("select id, uuid from job_runs"))


def test_a_parent_that_ends_while_its_child_is_enqueued_frees_it(
    admin: SqlClient, worker: SqlClient, meanwhile: ThreadPoolExecutor
):
    """The completion waits for the transaction, so that it finds the run."""
    pay = admin.enqueue()
    (one,) = lease(worker, pay)
    with admin.conn.transaction():
        ship = admin.enqueue(after=[pay])
        refused = meanwhile.submit(
            worker.sql, "select complete(%s, %s, %s)", worker.worker_id, [pay], [one.epoch]
        ).result()
    if refused:  # it waits for 200 ms, and the worker reports again
        worker.sql("select complete(%s, %s, %s)", worker.worker_id, [pay], [one.epoch])
    assert pass_on(worker).started == 1
    assert [each.id for each in lease(worker, ship)] == [ship]


def test_a_replay_reads_the_results_of_the_first_ones_parents(admin: SqlClient, worker: SqlClient):
    pay = admin.enqueue()
    ship = admin.enqueue(after=[pay])
    succeed(worker, pay, result="7")
    pass_on(worker)
    succeed(worker, ship)
    for _ in range(2):
        ship = admin.value("select new_id from replay(%s)", [ship])
        (run,) = lease(worker, ship)
        assert worker.value("select run_results(%s, %s, %s)", worker.worker_id, run.id, run.epoch) == [7]
        worker.sql("select complete(%s, %s, %s)", worker.worker_id, [run.id], [run.epoch])


def test_a_locked_run_is_waited_for_two_seconds_at_most(admin: SqlClient, other: SqlClient):
    pay = admin.enqueue()
    admin.sql("set statement_timeout = '20s'")
    with other.conn.transaction():
        other.sql("select from job_runs where id = %s for update", pay)
        with pytest.raises(Locked):
            enqueue_many(admin.conn, [Job("ping", after=[pay])])
        with pytest.raises(Locked):
            enqueue(admin.conn, "ping", after=[pay])


def test_a_run_cannot_wait_for_itself(admin: SqlClient):
    """Its id can be guessed: ids are numbered."""
    for guess in range(1, 4):  # one call may take several numbers
        last = admin.value("select last_value from job_runs_id_seq")
        with pytest.raises(psycopg.Error, match="which does not exist"):
            admin.enqueue(after=[last + guess])
    for guess in range(1, 4):
        last = admin.value("select last_value from job_runs_id_seq")
        with pytest.raises(WakeboardError, match="which does not exist"):
            enqueue_many(admin.conn, [Job("ping", after=[last + guess])])


@pytest.mark.parametrize(
    ("parents", "message"),
    [
        ([999], "after holds run 999, which does not exist; write ids that enqueue returned"),
        ([None], 'after is "{NULL}"; write the ids of up to 1000 runs, such as {12,13}'),
        ([[1], [2]], 'after is "{{1},{2}}"; write the ids of up to 1000 runs, such as {12,13}'),
        ([1] * 1001, "write the ids of up to 1000 runs"),
    ],
)
def test_a_wrong_parent_is_refused(admin: SqlClient, parents: list[Any], message: str):
    with pytest.raises(psycopg.Error) as refused:
        admin.enqueue(after=parents)
    assert message in str(refused.value)
    assert admin.value("select count(*) from job_runs") == 0


# -- results


def test_a_run_reads_the_results_of_its_parents_in_their_order(admin: SqlClient, worker: SqlClient):
    pay, pack = admin.enqueue(), admin.enqueue()
    ship = admin.enqueue(after=[pack, pay])
    succeed(worker, pay, result='{"paid": 3}')
    succeed(worker, pack)
    pass_on(worker)
    (one,) = lease(worker, ship)
    query = "select run_results(%s, %s, %s)"
    assert worker.value(query, worker.worker_id, ship, one.epoch) == [None, {"paid": 3}]
    with pytest.raises(psycopg.Error, match="the lease of run"):
        worker.value(query, worker.worker_id, ship, one.epoch + 1)
