"""A refusal of `enqueue_many` names the job that is wrong, whether Python or the database refuses it."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

import wakeboard
from wakeboard import Job
from wakeboard.errors import InvalidValue, KeyReused, WakeboardError

if TYPE_CHECKING:
    from tests.store.sql_clients import SqlClient

Connection = psycopg.Connection[Any]

LATER = datetime(2031, 1, 1, 8, tzinfo=UTC)
LARGE = {"text": "x" * 66_000}
DEEP: Any = json.loads("[" * 33 + "]" * 33)
wrong_job: Any = Job  # with values of other types
# Valid, and close to what is refused.
VALID = Job("ping", {"text": ("a", "\\u0000"), 1: 0.5}, queue="q" * 63, run_at=LATER, limit_key="l", priority=5)
Q70 = "q" * 60 + "/" * 10


def refusal(conn: Connection, *jobs: Any, **named: Any) -> str:
    with pytest.raises(InvalidValue) as refused:
        wakeboard.enqueue_many(conn, jobs, **named)
    return str(refused.value)


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        (Job("ping", {"text": ["\0"]}), "jobs[3] (ping): payload.text[0] holds a NUL character"),
        (Job("ping", {"at": LATER}), "jobs[3] (ping): payload.at is 2031-01-01 08:00:00+00:00, which JSON cannot"),
        (Job("send_mail", priority=6), "jobs[3] (send_mail): priority is 6; write a whole number from 1 to 5"),
        (wrong_job("ping", priority="5"), "jobs[3] (ping): priority is '5'; write a whole number"),
        (wrong_job("ping", queue=5), "jobs[3] (ping): queue is 5, which is not text"),
        (Job("ping", limit_key="\ud800"), "jobs[3] (ping): limit_key holds half of a surrogate pair"),
        (Job("ping", run_at=datetime(2031, 1, 1)), "jobs[3] (ping): run_at is 2031-01-01 00:00:00, which has no"),
        (wrong_job(5), "jobs[3]: job_type is 5, which is not text"),
        (Job("a\0"), "jobs[3]: job_type holds a NUL character"),
        (wrong_job("ping", after=["x"]), "jobs[3] (ping): after is 'x'; write the ids of runs, such as [12, 13]"),
        (wrong_job("ping", after=7), "jobs[3] (ping): after is 7; write a list, such as [7]"),
    ],
)
def test_a_job_that_python_refuses_is_named(application: Connection, wrong: Job, sentence: str) -> None:
    assert refusal(application, VALID, VALID, Job("pong"), wrong, Job("pong"), wrong).startswith(sentence)


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        (Job("ping", LARGE), "jobs[2] (ping): payload is 66,012 bytes, more than 64 KiB"),
        (Job("ping", {"deep": DEEP}), "jobs[2] (ping): payload.deep[0]"),
        (Job("ping", {"cents": [2**60]}), "jobs[2] (ping): payload.cents[0] is beyond 2^53"),
        (Job("ping", 5), "jobs[2] (ping): payload is 5, neither an object nor a list"),
        (Job("ping", queue="a b"), 'jobs[2] (ping): queue is "a b"; write letters'),
        (Job("ping", queue=Q70), f'jobs[2] (ping): queue is "{"q" * 60}..."; write letters'),
        (Job("ping", queue='"\\\x1fü'), 'jobs[2] (ping): queue is "\\"\\\\\\u001fü"; write letters'),
        (Job("ping", limit_key="schedule:1"), 'jobs[2] (ping): limit_key is "schedule:1"; write letters'),
        (Job("a b"), 'jobs[2]: job_type is "a b"; write letters'),
        (Job("ping", idempotency_key=""), 'jobs[2] (ping): idempotency_key is ""; write 1 to 256 characters'),
        (Job("ping", idempotency_key="k" * 257), f'jobs[2] (ping): idempotency_key is "{"k" * 60}..."; write'),
        (Job("ping", after=[2**40]), "jobs[2] (ping): after holds run 1099511627776, which does not exist; write ids"),
        (Job("ping", after=[1] * 1001), "jobs[2] (ping): after is "),
        (wrong_job(None), "jobs[2]: job_type is None; write the name of a job type"),
    ],
)
def test_a_job_that_only_the_database_refuses_is_named(
    application: Connection, database: str, wrong: Job, sentence: str
) -> None:
    """In autocommit and in a transaction, which has failed when the job is looked for."""
    assert refusal(application, Job("pong"), Job("pong", [1]), wrong, Job("ping"), wrong).startswith(sentence)
    with psycopg.connect(database) as conn:
        assert refusal(conn, Job("pong"), Job("pong", [1]), wrong).startswith(sentence)


def test_a_job_that_finds_an_earlier_run_is_not_named(application: Connection) -> None:
    kept, missing = Job("kept", idempotency_key="k"), [2**40]
    wakeboard.enqueue_many(application, [kept])
    jobs = [Job("kept", idempotency_key="k", after=missing), Job("ping", after=missing)]
    assert refusal(application, *jobs).startswith("jobs[1] (ping): after holds run ")
    keyed = [Job("kept", idempotency_key=key, after=missing) for key in "kl"]
    assert refusal(application, *keyed).startswith("after holds run ")  # either may be the wrong one


def test_an_iterator_that_names_no_run_is_refused_with_its_job(application: Connection) -> None:
    said = refusal(application, Job("ping"), Job("ping", after=iter([1])), Job("ping", after=iter([1, 0])))
    assert said == "jobs[2] (ping): after is 0; write the ids of runs, such as [12, 13]"


def test_a_job_that_a_unique_window_refuses_is_named(application: Connection) -> None:
    window: dict[str, Any] = {"unique_for": 9, "unique_by": ["a"]}
    said = refusal(application, Job("ping"), Job("pong", [7]), **window)
    assert said == 'jobs[1] (pong): unique_by is "{a}"; write no key: the payload is a list, which has none'
    said = refusal(application, Job("ping"), Job("pong", idempotency_key="a"), unique_for=9)
    assert said == "jobs[1] (pong): a run has unique_for or an idempotency key, not both; leave one of them out"


def test_a_refusal_of_the_whole_call_names_no_job(application: Connection) -> None:
    assert refusal(application, Job("ping"), max_attempts=0).startswith("max_attempts is 0; write")
    assert refusal(application, Job("ping"), unique_for=9, if_exists="drop").startswith('if_exists is "drop"; write')


def test_no_job_is_named_if_the_message_fits_several(application: Connection) -> None:
    """The message shows the beginning of a long text only."""
    jobs = [Job("ping", idempotency_key="k" * 256), Job("ping", idempotency_key="k" * 257)]
    assert refusal(application, *jobs).startswith("idempotency_key is ")


def test_a_key_with_another_payload_is_named_with_its_run(application: Connection) -> None:
    first = wakeboard.enqueue(application, "ping", {"n": 1}, idempotency_key="a")
    with pytest.raises(
        KeyReused, match=f"the idempotency key 'a' of ping belongs to run {first.id}, which has another"
    ):
        wakeboard.enqueue_many(application, [Job("pong"), Job("ping", {"n": 2}, idempotency_key="a")])


NO_JOBS: list[tuple[Any, str]] = [
    ([("noop", {})], 'jobs[0] is of type tuple, not a Job; write Job("send_mail", {"to": 42})'),
    ([Job("ping"), {"password": "hunter2"}], "jobs[1] is of type dict, not a Job; write Job("),
    ([Job("ping"), None], "jobs[1] is of type NoneType, not a Job; write Job("),
    ([SimpleNamespace(**dict.fromkeys(Job.__match_args__[:-1]))], "jobs[0] is of type SimpleNamespace, not a Job"),
    (Job("ping"), "jobs is of type Job; write a list"),
    (5, 'jobs is of type int; write a list, such as [Job("send_mail", {"to": 42})]'),
]


@pytest.mark.parametrize(("jobs", "sentence"), NO_JOBS)
def test_what_is_no_job_is_refused_by_its_place(application: Connection, jobs: Any, sentence: str) -> None:
    with pytest.raises(InvalidValue) as refused:
        wakeboard.enqueue_many(application, jobs)
    assert str(refused.value).startswith(sentence)


@pytest.mark.parametrize(
    ("named", "sentence"),
    [
        (
            {"unique_for": 9, "unique_by": 3},
            "unique_by is 3; write a list of keys of the payload, such as ['customer']",
        ),
        ({"unique_by": ["a"]}, "unique_for is None; write a number of seconds from 1 to 2678400 (31 days)"),
        ({"after": 3.5}, "after is 3.5; write a list, such as [12, 13]"),
        ({"after": ["x"]}, "after is 'x'; write the ids of runs, such as [12, 13]"),
        ({"after": "x"}, "after is 'x'; write a list, such as [12, 13]"),
    ],
)
def test_a_value_that_is_no_list_is_refused(application: Connection, named: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InvalidValue) as refused:
        wakeboard.enqueue(application, "ping", **named)
    assert str(refused.value) == sentence
    of_job = {name: value for name, value in named.items() if name == "after"}
    of_all = {name: value for name, value in named.items() if name != "after"}
    with pytest.raises(InvalidValue) as refused:
        wakeboard.enqueue_many(application, [Job("ping", **of_job)], **of_all)
    assert str(refused.value).endswith(sentence)


def test_a_missing_job_type_is_refused(application: Connection, admin: SqlClient) -> None:
    with pytest.raises(WakeboardError, match=r"^job_type is None; write the name of a job type$"):
        wakeboard.enqueue(application, None)  # pyright: ignore[reportArgumentType, reportCallIssue]
    assert admin.value("select count(*) from job_runs") == 0
