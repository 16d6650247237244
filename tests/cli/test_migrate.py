"""The commands `wakeboard migrate`, `effects install` and `version`, and unsuitable schemas."""

from __future__ import annotations

import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from subprocess import PIPE
from typing import TYPE_CHECKING

import psycopg
import pytest

from wakeboard.store import migrate
from wakeboard.store.schema_files import Migration, migrations

if TYPE_CHECKING:
    from tests.cli.conftest import Cli
    from tests.postgres_servers import PostgresServer

WAKEBOARD = Path(sys.executable).with_name("wakeboard")


def test_migrate_creates_the_schema_once(bare_cli: Cli, empty_database: str):
    missing = bare_cli("runs", "--dsn", empty_database)
    first = bare_cli("migrate", "--dsn", empty_database)
    again = bare_cli("migrate", "--dsn", empty_database, "--json")

    assert missing.err.endswith("has no wakeboard schema: run `wakeboard migrate`.\n")
    assert first.out.startswith("applied types, installation, ")
    assert (again.json["applied"], again.json["functions_written"]) == ([], False)
    assert bare_cli("migrate", "--dsn", empty_database).out.startswith("nothing to do: the schema is at migration")


def test_migrate_stores_settings_that_the_environment_has(
    bare_cli: Cli, empty_database: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("WAKEBOARD_MISFIRE_GRACE_SECONDS", "3600")
    bare_cli("migrate", "--dsn", empty_database)
    with psycopg.connect(empty_database) as conn:
        stored = conn.execute("select misfire_grace = '1 hour', min_history_retention from wakeboard.installation")
        assert stored.fetchone() == (True, timedelta(days=30))


def test_migrate_says_what_it_does_and_what_leads_back_before_it_starts(
    bare_cli: Cli, empty_database: str, monkeypatch: pytest.MonkeyPatch
):
    newest = migrations()[-1].version
    index = "create index concurrently later on wakeboard.job_keys (later);"
    text = f"-- locks: job_keys\nalter table job_keys add column later text;\n{index}"
    later = Migration(newest + 1, "later", text)
    last = Migration(newest + 2, "last", "update installation set min_code_version = '9.9.0'")

    assert bare_cli("migrate", "--dry-run", "--dsn", empty_database).out == (
        f"it creates the schema with {newest} migrations.\n"
    )
    assert bare_cli("migrate", "--dsn", empty_database).out.startswith("applied types, ")
    assert bare_cli("migrate", "--dry-run", "--dsn", empty_database).out == (
        f"nothing to do: the schema is at migration {newest}.\n"
    )
    monkeypatch.setattr(migrate, "migrations", lambda: (*migrations(), later))
    planned = bare_cli("migrate", "--dry-run", "--dsn", empty_database).out
    assert planned == (
        f"the schema is at migration {newest}; it applies later; for a moment it locks job_keys.\n"
        "at the end it builds later (CREATE INDEX CONCURRENTLY): no statement waits for that, and it waits for"
        " transactions that are open then.\n"
        "it cannot be undone, and need not be: releases since 0.1.0 work with the newer schema, so the way back is to"
        " start the former release.\n"
    )
    said = bare_cli("migrate", "--dsn", empty_database).out.removeprefix(planned)
    assert said.startswith(
        f"applied later; the schema is at migration {newest + 1}. No statement waited for longer than "
    )
    assert said.endswith("built later; no statement waited for that.\n")
    monkeypatch.setattr(migrate, "migrations", lambda: (*migrations(), later, last))
    assert "IT CANNOT BE UNDONE: releases before 9.9.0 stop" in bare_cli("migrate", "--dsn", empty_database).out
    monkeypatch.setattr(migrate, "functions_revision", lambda: 1)
    assert bare_cli("migrate", "--dry-run", "--dsn", empty_database).out == (
        f"nothing to do: the schema is at migration {newest + 2}; its SQL functions are newer than this release, and"
        " stay.\n"
    )


def test_migrate_waits_for_the_database_and_then_fails(bare_cli: Cli):
    result = bare_cli("migrate", "--wait", "0.6", "--dsn", "postgresql://ada:s3cret@127.0.0.1:1/board")

    assert result.code == 1
    waits, gives_up = result.err.splitlines()
    assert waits.startswith(
        "wakeboard: waiting up to 1 s more: cannot connect to database board on 127.0.0.1:1 as ada: "
    )
    assert gives_up.startswith("wakeboard: cannot connect to database board on 127.0.0.1:1 as ada: ")


@pytest.mark.parametrize(
    ("dsn", "says"),
    [
        ("{database}&user=wb_missing", "as wb_missing: role does not exist."),
        ("postgresql://ada:s3%cret@db/board", "the DSN cannot be read: write postgresql://"),
    ],
)
def test_migrate_does_not_wait_for_a_refused_login_or_an_invalid_dsn(bare_cli: Cli, database: str, dsn: str, says: str):
    result = bare_cli("migrate", "--wait", "600", "--dsn", dsn.format(database=database))

    assert result.code == 1
    assert says in result.err
    assert result.err.count("\n") == 1
    assert "cret" not in result.err


def test_migrate_waits_until_the_database_is_created(postgres: PostgresServer):
    command = [WAKEBOARD, "migrate", "--wait", "60", "--dsn", postgres.dsn_of("made_late")]
    with subprocess.Popen(command, stdout=PIPE, stderr=PIPE, text=True, encoding="utf-8") as waiting:
        assert waiting.stderr is not None
        assert "waiting up to 60 s more: cannot connect to database made_late" in waiting.stderr.readline()
        with psycopg.connect(postgres.dsn, autocommit=True) as conn:
            conn.execute("create database made_late")
        try:
            out, _ = waiting.communicate(timeout=60)
            assert out.startswith("applied types")
        finally:
            with psycopg.connect(postgres.dsn, autocommit=True) as conn:
                conn.execute("drop database made_late with (force)")


def test_a_role_loses_its_rights_only_with_revoke_role(bare_cli: Cli, database: str, monkeypatch: pytest.MonkeyPatch):
    with psycopg.connect(database, autocommit=True) as conn:
        conn.execute("create role wb_revoked login")
        try:
            monkeypatch.setenv("WAKEBOARD_VIEWER_ROLE", "wb_revoked")
            granted = bare_cli("migrate", "--dsn", database)
            assert granted.out == "granted the rights of the part viewer to the database role wb_revoked.\n"
            monkeypatch.delenv("WAKEBOARD_VIEWER_ROLE")
            assert bare_cli("migrate", "--dsn", database).out.startswith("nothing to do")
            result = bare_cli("migrate", "--revoke-role", "viewer", "--dsn", database)
            assert result.out == "revoked all rights of the database role wb_revoked.\n"
            monkeypatch.setenv("WAKEBOARD_VIEWER_ROLE", "wb_revoked")
            monkeypatch.setenv("WAKEBOARD_CLIENT_ROLE", "wb_revoked")
            both = bare_cli("migrate", "--json", "--dsn", database).json
            assert both["granted"] == {"client": "wb_revoked", "viewer": "wb_revoked"}
            monkeypatch.delenv("WAKEBOARD_CLIENT_ROLE")
            result = bare_cli("migrate", "--revoke-role", "client", "--dsn", database)
            part = "revoked the rights of the part client from the database role wb_revoked, which keeps others.\n"
            assert result.out == part
        finally:
            conn.execute("drop owned by wb_revoked; drop role wb_revoked")


def test_effects_install_creates_the_effects_table_in_another_database_only(
    bare_cli: Cli, empty_database: str, database: str, monkeypatch: pytest.MonkeyPatch
):
    """The variable keeps the DSN from the command line, which every user of the machine can see."""
    monkeypatch.setenv("WAKEBOARD_EFFECTS_DSN", empty_database)
    for words in (["effects", "install"], ["effects", "install", empty_database]):
        assert bare_cli(*words).out.startswith("the effects table is installed in database test_")
    with psycopg.connect(empty_database) as conn:
        found = conn.execute("select to_regprocedure('wakeboard.once(bigint,bigint,uuid,bigint,text)') is not null")
        assert found.fetchone() == (True,)
    refused = bare_cli("effects", "install", database)
    assert (refused.code, "has wakeboard's own schema" in refused.err) == (1, True)
