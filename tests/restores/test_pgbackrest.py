"""A restore to a point in time by pgBackRest, from its backup and its archive: the installation says what it lost."""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import TYPE_CHECKING, Final

import pytest

from testbed.processes import wait_for
from tests.postgres_servers import DEBIAN, installed_binaries
from tests.restores.test_server_changes import (
    DUE,
    SCHEDULE,
    Process,
    changes,
    connected,
    enqueue_ticks,
    primary_of,
    problem_texts,
)
from wakeboard.cli import main
from wakeboard.local.postgres_user import make_private_folder, server_account

if TYPE_CHECKING:
    from pathlib import Path

CONFIGURATION: Final = """
[global]
repo1-path = {folder}/repository
lock-path = {folder}/lock
spool-path = {folder}/spool
log-level-file = off
log-level-stderr = warn
start-fast = y
[app]
pg1-path = {primary}/data
pg1-socket-path = {primary}/socket
pg1-user = postgres
"""


class PgBackRest:
    """Its repository in `folder`, for the server in `primary`. It runs as the account of the server."""

    def __init__(self, folder: Path, primary: Path) -> None:
        program = shutil.which("pgbackrest")
        if program is None:
            missing = "pgBackRest is not installed; type: make test-packages"
            (pytest.fail if os.environ.get("CI") else pytest.skip)(missing)
        self._account = server_account()
        make_private_folder(folder, self._account)
        self._latest = folder / "repository" / "backup" / "app" / "latest"
        configuration = folder / "pgbackrest.conf"
        configuration.write_text(CONFIGURATION.format(folder=folder, primary=primary))
        self._command = [program, f"--config={configuration}", "--stanza=app"]
        self.archive_command = " ".join([*self._command, "archive-push", "%p"])

    def latest(self) -> str:
        """The label of the newest backup."""
        return self._latest.resolve().name

    def do(self, *words: str) -> None:
        user, group = (self._account.uid, self._account.gid) if self._account else (None, None)
        done = subprocess.run(
            [*self._command, *words], capture_output=True, text=True, cwd="/", user=user, group=group, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr


def test_a_restore_by_pgbackrest_is_reported_and_repeats_lost_ticks(
    postgres_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    installed_binaries(DEBIAN)
    witness, folder = Process(), postgres_folder / "primary"
    backups = PgBackRest(postgres_folder / "backups", folder)
    archived = {"archive_mode": "on", "archive_command": backups.archive_command}
    with primary_of(folder, DEBIAN, **archived) as server:
        backups.do("stanza-create")
        backups.do("backup")
        with connected(server.dsn) as conn:
            conn.execute(SCHEDULE)
            enqueue_ticks(server.dsn)
            conn.execute(DUE)
            kept = witness.claim_another(server.dsn)
            (monday,) = conn.execute("select clock_timestamp()::text").fetchone() or ("",)
            assert witness.claim_another(server.dsn) > kept
            assert enqueue_ticks(server.dsn) == 1
            conn.execute("select pg_switch_wal()")  # the end of the server archives what is complete
        server.stop()
        # Without the label it takes no backup that has ended in the same second.
        target = (f"--set={backups.latest()}", "--type=time", f"--target={monday}", "--target-action=promote")
        backups.do("restore", "--delta", *target)
        server.start()
        with connected(server.dsn) as conn:
            wait_for(lambda: conn.execute("select pg_is_in_recovery()").fetchone() == (False,))
            assert conn.execute("select id from wakeboard.all_runs").fetchall() == [(kept,)]
        witness.fetch(server.dsn)
        assert witness.warnings == ["WB005"]
        assert [row[:3] for row in changes(server.dsn)] == [("promoted", True, True)]
        (text,) = problem_texts(server.dsn)
        assert "a backup restored" in text
        assert "are lost" in text
        assert not witness.complete(server.dsn, kept)  # what it committed since is lost
        assert (enqueue_ticks(server.dsn), enqueue_ticks(server.dsn)) == (1, 0)
        check = ["check", "--after-restore", "--dsn", server.dsn]
        assert main(check) == 1
        assert "may run twice" in capsys.readouterr().out
        assert main([*check, "--yes", "--reason", "monday again"]) == 0
        assert problem_texts(server.dsn) == []
