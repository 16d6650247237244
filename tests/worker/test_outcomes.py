"""The outcomes of runs by what handlers return and raise; what is stored has no credentials and is valid JSON."""

from __future__ import annotations

import json
import uuid
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any, cast

import pytest

import wakeboard
from wakeboard.engine.worker_api import DISCONNECTED, Release
from wakeboard_worker.outcomes import MAX_ERROR, MAX_RESULT, failure, result_json

if TYPE_CHECKING:
    from tests.worker.conftest import Store
    from wakeboard.engine.worker_api import Failure


def test_a_handler_can_read_all_fields_of_its_run(store: Store) -> None:
    (run,) = store.enqueue("facts")
    log = store.wake().log
    seen = store.run(run)
    assert seen["result"] == {
        "uuid": seen["uuid"],
        "attempt": 1,
        "max": 5,
        "for": seen["result"]["for"],
        "queue": "default",
        "schedule": None,
        "cancelled": False,
    }
    assert f'"message": "here", "run": {run}, "job_type": "facts", "attempt": 1' in log


# What a handler raises or returns, and: status, attempts, error, whether it is due again in less than 50 minutes.
OUTCOMES = {
    "error": ("failed", 1, "no such customer", True),
    "discard": ("dead", 1, "it makes no sense", True),
    "retry": ("failed", 1, "", False),
    "snooze": ("queued", 0, "", False),
    "no number": ("failed", 1, "Snooze is given nan as its seconds", True),
    "long": ("failed", 1, "xxx", True),
    "binary": ("failed", 1, "a", True),
    "cancelled": ("failed", 1, "", True),
    "exit": ("failed", 1, "3", True),
    "object": ("succeeded", 1, "", True),
    "nul": ("succeeded", 1, "", True),
    "nan": ("succeeded", 1, "", True),
}


def test_what_a_handler_does_decides_the_outcome_of_its_run_alone(store: Store) -> None:
    runs = {what: store.enqueue("raises", f'{{"what": "{what}"}}')[0] for what in OUTCOMES}
    (last,) = store.enqueue("raises", '{"what": "error"}', max_attempts=1)
    (neighbour,) = store.enqueue("answers")
    store.wake()
    for what, (status, attempts, error, soon) in OUTCOMES.items():
        seen = store.run(runs[what])
        assert (seen["status"], seen["attempts"]) == (status, attempts), what
        assert error in (seen["last_error"] or ""), what
        assert len(seen["last_error"] or "") <= 2000, what
        due = "select run_at < now() + interval '50 minutes' from wakeboard.all_runs where id = %s"
        assert store.watcher.ask(due, runs[what]) is soon, what
    assert store.run(runs["error"])["error_type"] == "ValueError"
    stack = store.watcher.ask("select stack from wakeboard.job_attempts where run_id = %s", runs["error"])
    assert "reporting_handlers.py" in stack.splitlines()[1]
    assert (store.run(last)["status"], store.run(neighbour)["status"]) == ("dead", "succeeded")


def test_a_thousand_runs_of_both_kinds_are_isolated_and_all_succeed(store: Store) -> None:
    store.enqueue("isolated", count=500)
    store.enqueue("answers-plainly", count=500)
    store.wake()
    assert store.watcher.ask("select count(*) from wakeboard.job_run_history where status = 'succeeded'") == 1000
    found = store.watcher.rows("select distinct result from wakeboard.job_run_history where job_type = 'isolated'")
    assert found == [([0, True, True],)]


class Attempt:
    id = epoch = 1
    stopped_because = effect_conn = None


def failed_with(text: str) -> Failure:
    return cast("Failure", failure(cast("Any", Attempt()), ConnectionError(text)))


def test_an_error_and_its_stack_are_stored_without_credentials() -> None:
    stored = failed_with("cannot connect to postgresql://app:hunter2@db/shop password=hunter2")
    assert stored.error == "cannot connect to postgresql://app:***@db/shop password=***"
    assert stored.stack is not None
    assert "hunter2" not in stored.stack


def test_a_database_that_does_not_know_the_lease_costs_no_attempt() -> None:
    """A former primary refuses `run.once`. If the lease is really lost, the store refuses the release."""
    error = wakeboard.LeaseLost("this database does not know the lease of run 1: roll this transaction back")
    outcome = failure(cast("Any", Attempt()), error)
    assert isinstance(outcome, Release)
    assert outcome.reason == DISCONNECTED


def raised_while_handling(cause: Exception, requested: Exception) -> Exception:
    try:
        try:
            raise cause
        except type(cause):
            raise requested  # noqa: B904 - the context is what is tested
    except type(requested) as raised:
        return raised


@pytest.mark.parametrize(
    ("cause", "reason", "text"),
    [
        (ConnectionError("refused"), "", "refused (retry after 60 s)"),
        (ConnectionError("refused"), "the bank is down", "refused (the bank is down)"),
        (ConnectionError("refused"), "in doubt: refused", "in doubt: refused"),
        (ConnectionError(), "", "retry after 60 s"),
        (ConnectionError("password=hunter2"), "", "password=*** (retry after 60 s)"),
    ],
)
def test_a_requested_retry_is_stored_under_the_error_that_caused_it(cause: Exception, reason: str, text: str) -> None:
    implicit = raised_while_handling(cause, wakeboard.RetryAfter(60, reason))
    explicit = wakeboard.RetryAfter(60, reason)
    explicit.__cause__ = cause
    for error in (implicit, explicit):
        stored = cast("Failure", failure(cast("Any", Attempt()), error))
        assert (stored.error_type, stored.error, stored.delay_s) == ("ConnectionError", text, 60.0)


_NoName = type("_NoName", (type,), {"__name__": property(lambda _: 1 / 0)})
_NumberAsName = type("_NumberAsName", (type,), {"__name__": 5})


@pytest.mark.parametrize(("kind", "name"), [(_NoName, "object"), (_NumberAsName, "5")])
def test_a_type_without_a_name_fails_its_own_attempt_alone(kind: type, name: str) -> None:
    class Odd(Exception, metaclass=kind):
        pass

    stored = cast("Failure", failure(cast("Any", Attempt()), Odd("the text")))
    assert (stored.outcome, stored.error_type, stored.error) == ("failed", name, "the text")


def test_a_credential_that_is_cut_in_two_is_masked_all_the_same() -> None:
    for before in range(MAX_ERROR // 2 - 60, MAX_ERROR // 2):
        stored = failed_with("x" * before + " password=hunter2hunter2hunter2 " + "y" * MAX_ERROR)
        assert "unter" not in (stored.error or "")


@pytest.mark.parametrize(
    ("part", "stored"),
    [
        (datetime(2026, 1, 2, 3, 4, tzinfo=UTC), "2026-01-02T03:04:00+00:00"),
        (date(2026, 1, 2), "2026-01-02"),
        (uuid.UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (float("nan"), "nan"),
        ({1}, [1]),
        ("\0", "\N{REPLACEMENT CHARACTER}"),
        (r"\u0000 \\u0000", r"\u0000 \\u0000"),  # the text of an escape
        ("\\\0", "\\\N{REPLACEMENT CHARACTER}"),
        ("\ud800", "?"),
    ],
)
def test_a_part_that_json_cannot_express_becomes_text(part: Any, stored: Any) -> None:
    assert json.loads(result_json({"sent": 3, "at": part, "list": [part, 1]})) == {
        "sent": 3,
        "at": stored,
        "list": [stored, 1],
    }


def test_a_recursive_result_is_stored_as_text() -> None:
    endless: list[Any] = [datetime(2026, 1, 2, tzinfo=UTC)]
    endless.append(endless)
    assert len(result_json(endless)) <= MAX_RESULT + 2


@pytest.mark.parametrize("levels", [33, 500, 900])
def test_a_result_has_at_most_32_levels(levels: int) -> None:
    value: object = "core"
    for _ in range(levels):
        value = [value]
    text = result_json(value)
    while isinstance(value := json.loads(text), list):
        levels, text = levels - 1, json.dumps(value[0])
    assert levels >= 1
    assert isinstance(value, str)
    assert "core" in value


def test_brackets_in_strings_do_not_count_as_levels() -> None:
    value = {"code": "[{" * 16, "n": [[1], [2]] * 40}
    assert json.loads(result_json(value)) == value
