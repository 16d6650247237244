"""Steps, effects and limits, through real attempts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.worker.conftest import Store


def test_a_connection_lost_in_the_transaction_of_an_effect_costs_no_attempt(store: Store) -> None:
    (run,) = store.enqueue("loses-its-connection", max_attempts=1)
    with store.worker("--forever"):
        store.watcher.wait("select release_count = 1 and attempts = 0 from wakeboard.job_runs where id = %s", run)
        store.watcher.do("update wakeboard.job_runs set run_at = now()")
        store.watcher.wait("select result = 'true' from wakeboard.job_run_history where id = %s", run)


@pytest.mark.parametrize("what", ["step", "effect"])
def test_a_name_that_postgres_cannot_store_fails_at_once_with_a_sentence(store: Store, what: str) -> None:
    (run,) = store.enqueue("says-NUL", f'{{"what": "{what}"}}', max_attempts=1, timeout_s=60)
    log = store.wake().log
    assert store.run(run)["status"] == "dead", log
    assert "the character NUL" in store.run(run)["last_error"]


def test_a_key_may_be_used_again_after_a_rollback_only(store: Store) -> None:
    (right,) = store.enqueue("uses-a-key-twice", '{"uses": 2}')
    (wrong,) = store.enqueue("uses-a-key-twice", '{"uses": 3}', max_attempts=1)
    store.wake()
    assert store.run(right)["result"] == [True, True]
    assert store.run(wrong)["error_type"] == "EffectRepeated"
    assert "this attempt already had the effect 'book'" in store.run(wrong)["last_error"]


@pytest.mark.parametrize("once", ["per_run", "forever"])
def test_once_answers_after_a_rollback_also_of_what_was_done_before(store: Store, once: str) -> None:
    (run,) = store.enqueue("repeats-its-transaction", f'{{"once": "{once}"}}')
    with store.worker("--forever"):
        store.watcher.wait("select result is not null from wakeboard.job_run_history where id = %s", run)
    assert store.run(run)["result"] == [False, False, False, "EffectRepeated"]


def test_another_run_may_have_an_effect_once_for_ever_between_two_tries(store: Store) -> None:
    runs = [store.enqueue("tries-again-later", f'{{"tries": {tries}}}')[0] for tries in (2, 1)]
    log = store.wake().log
    assert [store.run(run)["result"] for run in runs] == [[True, False], [True]], log


def test_one_key_may_be_used_per_run_and_once_for_ever(store: Store) -> None:
    for once_for_ever in (True, False):
        (run,) = store.enqueue("uses-a-key-in-both-ways")
        store.wake()
        assert store.run(run)["result"] == [True, once_for_ever, True, once_for_ever]
