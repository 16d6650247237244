"""What an annotation asks for is done once for each token, and remembered in the same transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

    from tests.store.sql_clients import SqlClient

pytestmark = pytest.mark.every_postgres

DEFINE = """
insert into job_definitions (source, namespace, name, spec_hash, job_type, concurrency_policy)
values ('k8s:one', 'billing', 'report', '-', 'ping', %s) returning id
"""


def define(person: SqlClient, policy: str = "Allow") -> int:
    return person.value(DEFINE, policy)


def act(player: SqlClient, definition: int, action: str, token: str, *, record_only: bool = False) -> tuple[str, bool]:
    (row,) = player.sql("select * from run_annotation_action(%s, %s, %s, %s)", definition, action, token, record_only)
    return row.result, row.new


def dead_run(person: SqlClient, definition: int) -> int:
    run = person.enqueue()
    person.sql(
        "update job_runs set definition_id = %s, status = 'dead', dead_at = now() where id = %s", definition, run
    )
    return run


def test_run_now_queues_a_run_once_for_each_token(person: SqlClient) -> None:
    definition = define(person)
    result, new = act(person, definition, "run-now", "1")
    assert new
    assert result.startswith("queued run ")
    assert act(person, definition, "run-now", "1") == (result, False)
    assert person.value("select count(*) from job_runs") == 1
    assert act(person, definition, "run-now", "2")[1]
    assert person.value("select count(*) from job_runs where trigger = 'manual'") == 2


def test_a_token_that_was_there_first_is_remembered_and_not_acted_upon(person: SqlClient) -> None:
    definition = define(person)
    assert act(person, definition, "run-now", "1", record_only=True)[1]
    assert not act(person, definition, "run-now", "1")[1]
    assert person.value("select count(*) from job_runs") == 0


def test_retry_dead_queues_every_dead_run_again(person: SqlClient) -> None:
    definition = define(person)
    runs = [dead_run(person, definition) for _ in range(3)]
    elsewhere = dead_run(person, 99)
    assert act(person, definition, "retry-dead", "a") == ("queued 3 dead runs again", True)
    assert {person.run(run).status for run in runs} == {"queued"}
    assert person.run(elsewhere).status == "dead"


def test_one_dead_run_is_spoken_of_as_one(person: SqlClient) -> None:
    definition = define(person)
    dead_run(person, definition)
    assert act(person, definition, "retry-dead", "a") == ("queued 1 dead run again", True)


def test_discard_dead_gives_them_up(person: SqlClient) -> None:
    definition = define(person)
    dead_run(person, definition)
    assert act(person, definition, "discard-dead", "a") == ("discarded 1 dead run", True)
    assert person.value("select status from job_run_history") == "dead"


def test_a_refusal_is_remembered_too(person: SqlClient) -> None:
    definition = define(person, "Forbid")
    act(person, definition, "run-now", "1")
    result, new = act(person, definition, "run-now", "2")
    assert new
    assert result.startswith("refused: ")
    assert act(person, definition, "run-now", "2") == (result, False)


def test_two_operators_that_see_one_token_act_once(
    person: SqlClient, worker: SqlClient, other: SqlClient, meanwhile: ThreadPoolExecutor
) -> None:
    definition = define(person)
    with worker.conn.transaction():
        assert act(worker, definition, "run-now", "1")[1]
        second = meanwhile.submit(act, other, definition, "run-now", "1")
        assert person.wait_until_blocked(other, second.done)
    assert second.result(30)[1] is False
    assert person.value("select count(*) from job_runs") == 1


def test_a_removed_schedule_refuses(person: SqlClient) -> None:
    definition = define(person)
    person.sql("update job_definitions set removed_at = now()")
    assert act(person, definition, "run-now", "1") == ("refused: there is no such schedule", False)


def test_tokens_are_forgotten_after_ninety_days(person: SqlClient) -> None:
    definition = define(person)
    for token, days in (("old", 91), ("new", 89)):
        act(person, definition, "run-now", token)
        person.sql(
            "update action_tokens set requested_at = now() - make_interval(days => %s) where token = %s", days, token
        )
    person.value("select delete_expired(always => true)")
    assert person.column("select token from action_tokens") == ["new"]
