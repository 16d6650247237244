"""Every command on an unusable database: one sentence and an exit code."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

    from tests.cli.conftest import Type
    from tests.cli.sample_store import SampleStore

COMMANDS = """
schedules
schedules --json
next tidy
runs
runs --json
runs --schedule tidy
run 1
run 0b0e1c5a
failures
failures --json
enqueue ping
run-now tidy
retry 1
cancel 1
replay 1
discard 1
cancel --all-queued --yes
discard --all-dead --dry-run
pause
pause all
pause queue mail
resume all
limit
limit api 3
confirm removal file:x
check
check --json
apply schedules
apply schedules --dry-run
""".strip().splitlines()
WRITES = ("enqueue", "run-now", "cancel", "pause all", "limit api 3", "apply")  # others find nothing to do first


@pytest.fixture
def folder(tmp_path: Path) -> None:
    """The folder `schedules` where commands are typed."""
    folder = tmp_path / "schedules"
    folder.mkdir()
    (folder / "a.yaml").write_text(
        "apiVersion: wakeboard.dev/v1alpha1\nkind: JobSchedule\nmetadata: {name: a}\nspec: {jobType: ping}\n"
    )


@contextmanager
def role(story: SampleStore, name: str, *grants: str) -> Generator[None]:
    """A role with these rights."""
    story.sql(f"create role {name} login")
    try:
        for grant in grants:
            story.sql(f"grant {grant} to {name}")
        yield
    finally:
        story.sql(f"drop owned by {name}")
        story.sql(f"drop role {name}")


def type_all(type_anywhere: Type, dsn: str) -> dict[str, str]:
    """Types every command; what those said that failed."""
    said = {command: type_anywhere(*command.split(), "--dsn", dsn) for command in COMMANDS}
    assert all(answer.code in {0, 1} for answer in said.values())
    assert not any("Traceback" in answer.err for answer in said.values())
    return {command: answer.err + answer.out for command, answer in said.items() if answer.code}


@pytest.mark.usefixtures("folder")
def test_a_database_that_is_away(type_anywhere: Type):
    said = type_all(type_anywhere, "postgresql://ada@127.0.0.1:1/board")

    assert set(said) == set(COMMANDS)
    assert all("cannot connect to database board on 127.0.0.1:1 as ada: " in each for each in said.values())


@pytest.mark.usefixtures("folder")
def test_a_database_without_the_schema(type_anywhere: Type, empty_database: str):
    said = type_all(type_anywhere, empty_database)

    assert set(said) == set(COMMANDS)
    assert all("has no wakeboard schema yet: run `wakeboard migrate`" in each for each in said.values())


@pytest.mark.usefixtures("folder")
def test_a_role_that_may_only_read(type_anywhere: Type, database: str, story: SampleStore):
    story.declare("tidy")
    story.enqueue()
    grants = ("usage on schema wakeboard", "select on all tables in schema wakeboard")
    with role(story, "wakeboard_cli_reader", *grants, "execute on function wakeboard.schema_state()"):
        said = type_all(type_anywhere, database.replace("postgres@", "wakeboard_cli_reader@"))

    refused = {each for each, text in said.items() if "the database role may not do this: permission denied" in text}
    assert all(any(each.startswith(word) for each in refused) for word in WRITES)
    assert not {each for each in said if each.startswith(("runs", "run 1", "failures", "schedules", "next"))}


@pytest.mark.usefixtures("folder")
def test_transactions_that_may_only_read(type_anywhere: Type, database: str, story: SampleStore):
    story.declare("tidy")
    story.enqueue()

    said = type_all(type_anywhere, f"{database}&options=-c%20default_transaction_read_only%3Don")

    refused = {each for each, text in said.items() if "read-only transaction" in text}
    assert all(any(each.startswith(word) for each in refused) for word in WRITES)
