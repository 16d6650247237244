"""`wakeboard check` on real boards."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from tests.postgres_servers import running_pooler

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.cli.conftest import Type
    from tests.cli.sample_store import SampleStore
    from tests.postgres_servers import PostgresServer


def levels(said: Any) -> dict[str, str]:
    return {finding["what"]: finding["level"] for finding in said.json}


def test_a_store_with_a_worker_is_well_but_for_what_the_tests_server_lacks(type_command: Type, story: SampleStore):
    story.works("report")
    story.declare("weekly-report")

    said = type_command("check", "--json")

    assert said.code == 0
    not_ok = {what: level for what, level in levels(said).items() if level != "ok"}
    assert not_ok == {"durability": "warn"}  # its commits are not safe, on purpose
    assert type_command("check", "--strict").code == 1


def test_a_store_in_trouble_fails_and_says_what_to_do(type_command: Type, story: SampleStore):
    story.works(queues=("other",))
    story.declare("weekly-report")
    unserved, unknown = story.enqueue("mail"), story.enqueue("mail", queue="other")
    story.fail(dead := story.enqueue(), outcome="discarded")
    lapsed = story.enqueue("mail")
    story.claim(lapsed)
    for run in (unserved, unknown):
        story.long_ago(run, "20 minutes")
    story.sql("update wakeboard.job_runs set locked_until = now() - interval '10 min' where id = %s", lapsed)
    story.sql("update wakeboard.job_definitions set next_run_at = now() - interval '1 h'")
    story.sql("alter table wakeboard.job_runs disable trigger job_runs_notify")
    story.sql("select wakeboard.pause('queue:x')")

    said = type_command("check")

    assert said.code == 1
    assert dead
    text = "\n".join(" ".join(line.split()) for line in said.lines)
    assert "fail ticks 1 schedule overdue" in text
    assert "warn queues no worker has served default in the last 10 minutes" in text
    assert "fail job types no worker of its queue knows mail: 1 run queued" in text
    assert "fail leases 1 run with a lapsed lease, the oldest since 10 min ago" in text
    assert "warn dead runs 1 dead run, 1 of them since yesterday" in text
    assert "warn notify the trigger job_runs_notify is missing or disabled" in text
    assert "warn pauses paused: queue x" in text
    assert "-> `wakeboard resume` when it is time" in text


def test_partitions_that_are_missing_fail(type_command: Type, story: SampleStore):
    for (name,) in story.sql(
        "select inhrelid::regclass::text from pg_inherits where inhparent = 'wakeboard.job_run_history'::regclass"
    ):
        story.sql(f"drop table {name}")

    assert levels(type_command("check", "--json"))["partitions"] == "fail"


def test_an_open_transaction_is_no_trouble_at_once(type_command: Type, story: SampleStore, database: str):
    with psycopg.connect(database) as other:
        other.execute("select 1")
        assert levels(type_command("check", "--json"))["vacuum"] == "ok"


def test_no_schema_is_one_line(type_anywhere: Type, empty_database: str):
    said = type_anywhere("check", "--dsn", empty_database)

    assert said.code == 1
    assert said.lines[0].startswith("fail  schema      ")
    assert said.lines[1].split() == ["->", "run", "`wakeboard", "migrate`"]


def test_no_database_is_one_line(type_anywhere: Type):
    said = type_anywhere("check", "--json", "--dsn", "host=127.0.0.1 port=1 password=s3cret")

    assert (said.code, levels(said)) == (1, {"database": "fail"})
    assert "s3cret" not in said.out


def test_moves_that_somebody_changed_are_noticed(type_command: Type, story: SampleStore):
    story.sql("update wakeboard.installation set functions_hash = 'edited'")

    assert levels(type_command("check", "--json"))["schema"] == "fail"


def test_a_viewer_may_check(type_anywhere: Type, database: str, story: SampleStore, monkeypatch: pytest.MonkeyPatch):
    story.sql("create role wakeboard_cli_viewer login")
    monkeypatch.setenv("WAKEBOARD_VIEWER_ROLE", "wakeboard_cli_viewer")
    viewer = database.replace("postgres@", "wakeboard_cli_viewer@")
    try:
        assert type_anywhere("migrate", "--dsn", database).code == 0
        run = story.enqueue()
        for words in (["check", "--json"], ["schedules"], ["runs"], ["run", str(run)], ["limit"], ["pause"]):
            said = type_anywhere(*words, "--dsn", viewer)
            assert "may not" not in said.err + said.out
        assert "may not do this" in type_anywhere("cancel", str(run), "--dsn", viewer).err
    finally:
        story.sql("drop owned by wakeboard_cli_viewer")
        story.sql("drop role wakeboard_cli_viewer")


@pytest.fixture
def pooled(request: pytest.FixtureRequest, database: str, postgres_folder: Path) -> Iterator[str]:
    """The same database through PgBouncer, in the mode that the test asks for."""
    with running_pooler(database, postgres_folder, request.param) as dsn:
        yield dsn


@pytest.mark.parametrize(
    ("pooled", "level", "says"),
    [
        ("transaction", "ok", "through a transaction pooler, where LISTEN receives nothing: workers behind it poll"),
        ("session", "ok", "through a session pooler"),
    ],
    indirect=["pooled"],
)
def test_a_pooler_is_recognised(type_anywhere: Type, story: SampleStore, pooled: str, level: str, says: str):
    story.enqueue()
    (found,) = [each for each in type_anywhere("check", "--json", "--dsn", pooled).json if each["what"] == "connection"]

    assert (found["level"], found["says"]) == (level, says)
    assert type_anywhere("runs", "--dsn", pooled).code == 0
    strict = type_anywhere("check", "--strict", "--json", "--dsn", pooled).json
    assert "connection" not in {each["what"] for each in strict if each["level"] != "ok"}


def test_the_tests_server_is_reached_directly(type_command: Type, postgres: PostgresServer):
    (found,) = [each for each in type_command("check", "--json").json if each["what"] == "connection"]

    assert found["says"] == "direct"
