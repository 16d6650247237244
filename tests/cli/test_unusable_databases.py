"""Every command on an unusable database prints one sentence and exits with 1."""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from wakeboard.store import schema_files

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

    from tests.cli.conftest import Cli
    from tests.cli.sample_store import SampleStore

COMMANDS = (
    """
schedules, schedules --json, next clean-up, runs, runs --json, runs --schedule clean-up, run 1, run 0b0e1c5a, failures,
failures --json, enqueue ping, run-now clean-up, retry 1, cancel 1, replay 1, discard 1, cancel --all-queued --yes,
discard --all-dead --dry-run, pause, pause all, pause queue mail, resume all, limit, limit api --at-once 3,
confirm removal file:x, check, check --json, apply schedules, apply schedules --dry-run
""".replace("\n", " ")
    .strip()
    .split(", ")
)
WRITES = (
    "enqueue",
    "run-now",
    "cancel",
    "pause all",
    "limit api --at-once 3",
    "apply",
)  # others find nothing to change


@pytest.fixture(autouse=True)
def folder(tmp_path: Path) -> None:
    """Creates the folder `schedules` in the current folder."""
    folder = tmp_path / "schedules"
    folder.mkdir()
    (folder / "a.yaml").write_text(
        "apiVersion: wakeboard.dev/v1alpha1\nkind: JobSchedule\nmetadata: {name: a}\nspec: {jobType: ping}\n"
    )


@contextmanager
def role(sample: SampleStore, name: str, *grants: str) -> Generator[None]:
    """Creates a role with these grants, and drops it at the end."""
    sample.sql(f"create role {name} login")
    try:
        for grant in grants:
            sample.sql(f"grant {grant} to {name}")
        yield
    finally:
        sample.sql(f"drop owned by {name}")
        sample.sql(f"drop role {name}")


def run_all(bare_cli: Cli, dsn: str) -> dict[str, str]:
    """Runs every command; returns the output of those that failed."""
    result = {command: bare_cli(*command.split(), "--dsn", dsn) for command in COMMANDS}
    assert all(answer.code in {0, 1} for answer in result.values())
    assert not any("Traceback" in answer.err for answer in result.values())
    return {command: answer.err + answer.out for command, answer in result.items() if answer.code}


def test_an_unreachable_database(bare_cli: Cli):
    result = run_all(bare_cli, "postgresql://ada@127.0.0.1:1/board")

    assert set(result) == set(COMMANDS)
    assert all("cannot connect to database board on 127.0.0.1:1 as ada: " in each for each in result.values())


def test_a_database_without_the_schema(bare_cli: Cli, empty_database: str):
    result = run_all(bare_cli, empty_database)

    assert set(result) == set(COMMANDS)
    assert all("has no wakeboard schema: run `wakeboard migrate`" in each for each in result.values())


def test_a_role_that_can_only_read(bare_cli: Cli, database: str, sample: SampleStore):
    sample.add_schedule("clean-up")
    sample.enqueue()
    grants = ("usage on schema wakeboard", "select on all tables in schema wakeboard")
    with role(sample, "wakeboard_cli_reader", *grants, "execute on function wakeboard.schema_state()"):
        result = run_all(bare_cli, database.replace("postgres@", "wakeboard_cli_reader@"))

    refused = {
        each
        for each, text in result.items()
        if "(login wakeboard_cli_reader) may not do this: permission denied" in text
    }
    assert all(any(each.startswith(word) for each in refused) for word in WRITES)
    assert not {each for each in result if each.startswith(("runs", "run 1", "failures", "schedules", "next"))}


def test_read_only_transactions(bare_cli: Cli, database: str, sample: SampleStore):
    sample.add_schedule("clean-up")
    sample.enqueue()

    result = run_all(bare_cli, f"{database}&options=-c%20default_transaction_read_only%3Don")

    refused = {each for each, text in result.items() if "read-only transaction" in text}
    assert all(any(each.startswith(word) for each in refused) for word in WRITES)


def test_timeouts_that_end_sessions(bare_cli: Cli, database: str, monkeypatch: pytest.MonkeyPatch):
    def slow() -> str:
        time.sleep(0.5)
        return ""

    monkeypatch.setattr(schema_files, "functions_hash", slow)
    run_all(bare_cli, f"{database}&options=-c%20idle_in_transaction_session_timeout%3D1")
    result = bare_cli("check", "--json", "--dsn", f"{database}&options=-c%20idle_session_timeout%3D250").json

    assert [(each["check"], each["level"]) for each in result] == [("database", "fail")]
    assert "idle-session timeout" in result[0]["message"]
    assert "at least 10 s" in result[0]["hint"]
