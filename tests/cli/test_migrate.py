"""migrate, effects install, version: and what a board says that does not fit."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from subprocess import PIPE
from typing import TYPE_CHECKING

import psycopg
import pytest

from wakeboard import __version__

if TYPE_CHECKING:
    from tests.cli.conftest import Type
    from tests.cli.sample_store import SampleStore
    from tests.postgres_servers import PostgresServer

WAKEBOARD = Path(sys.executable).with_name("wakeboard")


def test_migrate_makes_the_schema_and_says_so_once(type_anywhere: Type, empty_database: str):
    missing = type_anywhere("runs", "--dsn", empty_database)
    first = type_anywhere("migrate", "--dsn", empty_database)
    again = type_anywhere("migrate", "--dsn", empty_database, "--json")

    assert missing.err.endswith("has no wakeboard schema yet: run `wakeboard migrate`.\n")
    assert first.out.startswith("applied installation, schedules, runs, ")
    assert (again.json["applied"], again.json["functions_written"]) == ([], False)
    assert type_anywhere("migrate", "--dsn", empty_database).out.startswith("nothing to do: the schema is at migration")


def test_roles_are_printed_for_a_dba(type_anywhere: Type, monkeypatch: pytest.MonkeyPatch):
    assert type_anywhere("migrate", "--print-roles").err.startswith("wakeboard: no roles are named")
    monkeypatch.setenv("WAKEBOARD_WORKER_ROLE", "wb_worker")
    assert 'create role "wb_worker" login' in type_anywhere("migrate", "--print-roles").out


def test_a_role_that_does_not_exist_is_named(type_command: Type, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("WAKEBOARD_WORKER_ROLE", "wb_nobody_made")

    assert "the database role wb_nobody_made does not exist" in type_command("migrate").err


def test_migrate_gives_up_when_the_database_does_not_come(type_anywhere: Type):
    said = type_anywhere("migrate", "--wait", "0.6", "--dsn", "postgresql://ada:s3cret@127.0.0.1:1/board")

    assert said.code == 1
    waits, gives_up = said.err.splitlines()
    assert waits.startswith(
        "wakeboard: waiting up to 1 s more: cannot connect to database board on 127.0.0.1:1 as ada: "
    )
    assert gives_up.startswith("wakeboard: cannot connect to database board on 127.0.0.1:1 as ada: ")


@pytest.mark.parametrize(
    ("dsn", "says"),
    [
        ("{database}&user=wb_nobody_made", "as wb_nobody_made: role does not exist."),
        ("postgresql://ada:s3%cret@db/board", "the DSN cannot be read: write postgresql://"),
    ],
)
def test_migrate_does_not_wait_for_what_waiting_cannot_mend(type_anywhere: Type, database: str, dsn: str, says: str):
    said = type_anywhere("migrate", "--wait", "600", "--dsn", dsn.format(database=database))

    assert said.code == 1
    assert says in said.err
    assert said.err.count("\n") == 1
    assert "cret" not in said.err


def test_migrate_waits_for_a_database_that_is_made_meanwhile(postgres: PostgresServer):
    command = [WAKEBOARD, "migrate", "--wait", "60", "--dsn", postgres.dsn_of("made_late")]
    with subprocess.Popen(command, stdout=PIPE, stderr=PIPE, text=True, encoding="utf-8") as waiting:
        assert waiting.stderr is not None
        assert "waiting up to 60 s more: cannot connect to database made_late" in waiting.stderr.readline()
        with psycopg.connect(postgres.dsn, autocommit=True) as conn:
            conn.execute("create database made_late")
        try:
            out, _ = waiting.communicate(timeout=60)
            assert out.startswith("applied installation")
        finally:
            with psycopg.connect(postgres.dsn, autocommit=True) as conn:
                conn.execute("drop database made_late with (force)")


def test_a_role_loses_its_rights_only_when_that_is_requested(
    type_anywhere: Type, database: str, monkeypatch: pytest.MonkeyPatch
):
    with psycopg.connect(database, autocommit=True) as conn:
        conn.execute("create role wb_revoked login")
        try:
            monkeypatch.setenv("WAKEBOARD_VIEWER_ROLE", "wb_revoked")
            type_anywhere("migrate", "--dsn", database)
            monkeypatch.delenv("WAKEBOARD_VIEWER_ROLE")
            assert type_anywhere("migrate", "--dsn", database).out.startswith("nothing to do")
            said = type_anywhere("migrate", "--revoke-role", "viewer", "--dsn", database)
            assert said.out == "the database role wb_revoked has lost its rights.\n"
        finally:
            conn.execute("drop owned by wb_revoked; drop role wb_revoked")


def test_a_schema_that_is_too_old_is_said_in_one_sentence(type_command: Type, story: SampleStore):
    story.sql("delete from wakeboard.migrations where version > 1")

    said = type_command("schedules")

    assert (said.code, said.err.count("\n")) == (1, 1)
    assert "is at migration 1 and this release needs" in said.err
    assert "run `wakeboard migrate`" in said.err


def test_a_schema_that_is_newer_works_down_to_the_release_that_it_names(type_command: Type, story: SampleStore):
    story.sql("insert into wakeboard.migrations (version, name, applied_by) values (99, 'later', '0.2.0')")
    assert type_command("schedules").code == 0

    story.sql("update wakeboard.installation set min_code_version = '9.0.0'")
    said = type_command("schedules")

    assert said.code == 1
    assert f"needs wakeboard 9.0.0 or newer, and this is {__version__}" in said.err


def test_the_address_of_the_effects_ledger_may_stand_in_the_environment(
    type_anywhere: Type, empty_database: str, monkeypatch: pytest.MonkeyPatch
):
    """The command line is visible to every user of the machine."""
    monkeypatch.setenv("WAKEBOARD_EFFECTS_DSN", empty_database)
    assert type_anywhere("effects", "install").out.startswith("the effects ledger is in database test_")


def test_the_effects_ledger_is_installed_in_another_database(type_anywhere: Type, empty_database: str):
    said = type_anywhere("effects", "install", empty_database)

    assert said.code == 0
    assert said.out.startswith("the effects ledger is in database test_")
    with psycopg.connect(empty_database) as conn:
        assert conn.execute("select to_regprocedure('wakeboard.once(bigint,bigint,uuid,bigint,text)')").fetchone() != (
            None,
        )
    assert type_anywhere("effects", "install", empty_database, "--json").code == 0


def test_no_ledger_is_installed_beside_the_store(type_anywhere: Type, database: str):
    said = type_anywhere("effects", "install", database)

    assert said.code == 1
    assert "has wakeboard's own schema: `run.once` works there without a ledger" in said.err


def test_the_version_is_told(type_anywhere: Type):
    assert type_anywhere("version").out.startswith(f"wakeboard {__version__}, Python 3.")
    assert type_anywhere("version", "--json").json["wakeboard"] == __version__
    assert type_anywhere("--version").out == f"wakeboard {__version__}\n"
