"""What an annotation asks for is done once for each token, and remembered in the same transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

    from tests.store.sql_clients import SqlClient


def act(client: SqlClient, definition: int, action: str, token: str, *, record_only: bool = False) -> tuple[str, bool]:
    (row,) = client.sql("select * from run_annotation_action(%s, %s, %s, %s)", definition, action, token, record_only)
    return row.result, row.new


def dead_run(admin: SqlClient, definition: int) -> int:
    run = admin.enqueue()
    admin.sql("update job_runs set definition_id = %s, status = 'dead', dead_at = now() where id = %s", definition, run)
    return run


def test_a_token_of_a_new_schedule_is_stored_and_not_executed(admin: SqlClient) -> None:
    definition = admin.define()
    assert act(admin, definition, "run-now", "1", record_only=True)[1]
    assert not act(admin, definition, "run-now", "1")[1]
    assert admin.value("select count(*) from job_runs") == 0


def test_a_refused_token_is_stored_too(admin: SqlClient) -> None:
    definition = admin.define(policy="Forbid")
    act(admin, definition, "run-now", "1")
    result, new = act(admin, definition, "run-now", "2")
    assert new
    assert result.startswith("refused: ")
    assert act(admin, definition, "run-now", "2") == (result, False)


def test_two_operators_that_see_one_token_act_once(
    admin: SqlClient, worker: SqlClient, other: SqlClient, meanwhile: ThreadPoolExecutor
) -> None:
    definition = admin.define()
    with worker.conn.transaction():
        assert act(worker, definition, "run-now", "1")[1]
        second = meanwhile.submit(act, other, definition, "run-now", "1")
        assert admin.wait_until_blocked(other, second.done)
    assert second.result(30)[1] is False
    assert admin.value("select count(*) from job_runs") == 1


def test_a_removed_schedule_refuses(admin: SqlClient) -> None:
    definition = admin.define()
    admin.sql("update job_definitions set removed_at = now()")
    assert act(admin, definition, "run-now", "1") == ("refused: there is no such schedule", False)


def pass_days(admin: SqlClient, days: int) -> None:
    admin.sql("update action_tokens set requested_at = requested_at - make_interval(days => %s)", days)
    admin.value("select delete_expired(always => true)")


def test_a_token_that_the_schedule_may_still_have_never_expires(admin: SqlClient) -> None:
    definition = admin.define()
    act(admin, definition, "run-now", "1")
    act(admin, definition, "retry-dead", "1")
    pass_days(admin, 91)
    assert not act(admin, definition, "run-now", "1")[1]
    act(admin, definition, "run-now", "2")
    act(admin, definition, "run-now", "1")  # Git has the former value again
    pass_days(admin, 91)
    assert not act(admin, definition, "run-now", "1")[1]
    assert admin.value("select count(*) from job_runs") == 2


def test_former_tokens_and_those_of_removed_schedules_expire(admin: SqlClient) -> None:
    definition, removed = admin.define(), admin.define("removed")
    act(admin, removed, "run-now", "of the removed one")
    for token, days in (("former", 2), ("kept", 89), ("newest", 91)):
        act(admin, definition, "run-now", token)
        pass_days(admin, days)
    tokens = "select token from action_tokens order by 1"
    assert admin.column(tokens) == ["newest", "of the removed one"]
    admin.sql("update job_definitions set removed_at = now() where id = %s", removed)
    pass_days(admin, 0)
    assert admin.column(tokens) == ["newest"]
