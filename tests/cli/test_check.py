"""The command `wakeboard check` on real databases."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg
import pytest

from tests.postgres_servers import running_pooler
from wakeboard.cli.commands import check

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.cli.conftest import Cli, Result
    from tests.cli.sample_store import SampleStore


def levels(result: Result) -> dict[str, str]:
    return {finding["check"]: finding["level"] for finding in result.json}


def test_the_tests_database_has_only_the_durability_warning(cli: Cli, sample: SampleStore):
    sample.register_worker("report")
    sample.add_schedule("weekly-report")

    result = cli("check", "--json")

    assert result.code == 0
    not_ok = {check: level for check, level in levels(result).items() if level != "ok"}
    assert not_ok == {"durability": "warn"}  # the test server runs without fsync
    assert cli("check", "--strict").code == 1


def test_problems_are_reported_with_hints(cli: Cli, sample: SampleStore):
    sample.register_worker(queues=("other",))
    sample.add_schedule("weekly-report")
    unserved, unknown = sample.enqueue("mail"), sample.enqueue("mail", queue="other")
    sample.fail(sample.enqueue(), outcome="discarded")
    expired = sample.enqueue("mail")
    sample.claim(expired)
    for run in (unserved, unknown):
        sample.backdate(run, "20 minutes")
    sample.sql("update wakeboard.job_runs set locked_until = now() - interval '10 min' where id = %s", expired)
    sample.sql("update wakeboard.job_definitions set next_run_at = now() - interval '1 h'")
    sample.sql("alter table wakeboard.job_runs disable trigger job_runs_inserted")
    sample.sql("select wakeboard.pause('queue:x')")

    result = cli("check")

    assert result.code == 1
    text = "\n".join(result.cells)
    assert "fail ticks 1 schedule overdue: no process enqueues due ticks." in text
    assert "fail queues No worker has served the queue default in the last 10 minutes. Waiting: 1 run of mail" in text
    assert "fail job types No worker of the queue other has had a handler for mail in the last 10 minutes." in text
    assert "fail leases 1 run with an expired lease, the oldest expired 10 min ago." in text
    assert "warn dead runs 1 dead run of" in text
    assert "fail objects The schema has changed: trigger job_runs_inserted is missing or disabled." in text
    assert "warn pauses Paused" in text
    assert "-> End a pause with `wakeboard resume`." in text


@pytest.fixture
def logins(
    bare_cli: Cli, database: str, sample: SampleStore, monkeypatch: pytest.MonkeyPatch
) -> Iterator[dict[str, str]]:
    """The DSN of each part of an installation whose roles have the names wakeboard_cli_PART."""
    names = {part: f"wakeboard_cli_{part}" for part in ("client", "viewer", "worker")}
    for part, name in names.items():
        sample.sql(f"create role {name} login")
        monkeypatch.setenv(f"WAKEBOARD_{part.upper()}_ROLE", name)
    try:
        assert bare_cli("migrate", "--dsn", database).code == 0
        yield {part: database.replace("postgres@", f"{name}@") for part, name in names.items()}
    finally:
        for name in names.values():
            sample.sql(f"drop owned by {name}")
            sample.sql(f"drop role {name}")


@pytest.fixture
def viewer(logins: dict[str, str]) -> str:
    return logins["viewer"]


def test_a_role_that_cannot_check_is_named_with_those_that_can(bare_cli: Cli, logins: dict[str, str]):
    client = logins["client"]
    enqueued = bare_cli("enqueue", "mail", "--dsn", client)
    assert (enqueued.code, enqueued.err) == (0, ""), "it may not read what workers serve"
    *others, refused = bare_cli("check", "--json", "--dsn", client).json
    assert {each["check"]: each["level"] for each in others} == dict.fromkeys(check.OF_ANY_ROLE, "ok")
    assert (refused["level"], refused["check"]) == ("fail", "rights")
    assert "connection (login wakeboard_cli_client) may not do this: permission denied" in refused["message"]
    assert refused["hint"] == "Check with a role that may: wakeboard_cli_viewer, postgres."


def test_the_viewer_role_can_check_and_list(bare_cli: Cli, viewer: str, sample: SampleStore):
    run = sample.enqueue()
    for words in (["check", "--json"], ["schedules"], ["runs"], ["run", str(run)], ["limit"], ["pause"]):
        result = bare_cli(*words, "--dsn", viewer)
        assert "may not" not in result.err + result.out
    refused = bare_cli("cancel", str(run), "--dsn", viewer).err
    assert "may not do this: permission denied for function" in refused
    assert "connect with WAKEBOARD_OPERATOR_ROLE, to which `wakeboard migrate` grants it" in refused
    assert "VIEWER" not in refused, "viewers may call none"


@pytest.mark.parametrize(
    ("statement", "check", "says"),
    [
        ("alter role {} nologin", "logins", "may not log in, nor may a member of it"),
        ("alter role {} valid until '2020-01-01'", "logins", "has a password that is valid no longer"),
        ("alter role {} connection limit 0", "logins", "has 0 sessions, and its connection limit is 0"),
        ("alter role {} set statement_timeout = '1 ms'", "settings", "has set statement_timeout = 1ms for the role"),
        ("alter role {} set default_transaction_read_only = 1", "settings", "so wakeboard cannot write"),
    ],
)
def test_what_an_administrator_does_to_the_workers_role_fails(
    bare_cli: Cli, viewer: str, sample: SampleStore, statement: str, check: str, says: str
):
    assert levels(bare_cli("check", "--json", "--dsn", viewer))[check] == "ok"

    sample.sql(statement.format("wakeboard_cli_worker"))
    result = bare_cli("check", "--json", "--dsn", viewer)

    (finding,) = (each for each in result.json if each["check"] == check)
    assert finding["level"] == "fail"
    assert says in finding["message"]
    assert "wakeboard_cli_worker" in finding["message"]


@pytest.mark.every_postgres
def test_a_member_logs_in_for_a_role(bare_cli: Cli, viewer: str, sample: SampleStore):
    sample.sql("alter role wakeboard_cli_worker nologin")
    sample.sql("create role wakeboard_cli_member login in role wakeboard_cli_worker")
    try:
        assert levels(bare_cli("check", "--json", "--dsn", viewer))["logins"] == "ok"
        sample.sql("alter role wakeboard_cli_member connection limit 0")
        (finding,) = (each for each in bare_cli("check", "--json", "--dsn", viewer).json if each["check"] == "logins")
        assert "wakeboard_cli_member, a member of wakeboard_cli_worker, has 0 sessions" in finding["message"]
    finally:
        sample.sql("drop role wakeboard_cli_member")


def test_a_viewer_sees_sequences_behind_their_tables(bare_cli: Cli, viewer: str, sample: SampleStore):
    sample.enqueue()
    sample.enqueue()
    assert levels(bare_cli("check", "--json", "--dsn", viewer))["sequences"] == "ok"
    sample.sql("select setval('wakeboard.job_runs_id_seq', 1)")
    assert "The next ids of job_runs belong to rows that exist." in bare_cli("check", "--dsn", viewer).out


@pytest.fixture
def pooled(request: pytest.FixtureRequest, database: str, postgres_folder: Path) -> Iterator[str]:
    """The same database through PgBouncer, in the pooling mode of the test."""
    with running_pooler(database, postgres_folder, request.param) as dsn:
        yield dsn


@pytest.mark.parametrize(
    ("pooled", "message"),
    [
        ("transaction", "Through a transaction pooler, which does not support LISTEN: workers poll."),
        ("session", "Through a session pooler."),
    ],
    indirect=["pooled"],
)
def test_a_pooler_is_recognised(bare_cli: Cli, sample: SampleStore, pooled: str, message: str):
    sample.enqueue()
    findings = bare_cli("check", "--json", "--dsn", pooled).json
    (found,) = [each for each in findings if each["check"] == "connection"]

    assert (found["level"], found["message"]) == ("ok", message)
    assert bare_cli("runs", "--dsn", pooled).code == 0
    strict = bare_cli("check", "--strict", "--json", "--dsn", pooled).json
    assert "connection" not in {each["check"] for each in strict if each["level"] != "ok"}


def test_a_database_that_does_not_answer_fails_within_a_bound(cli: Cli, database: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(check, "ANSWER_S", 1.0)
    with psycopg.connect(database) as holder:
        holder.execute("lock table wakeboard.job_runs")
        assert levels(cli("check", "--json")) == {"locks": "fail", "database": "fail"}
