"""What all commands share: start-up, help, global options, errors, signals and pipes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from subprocess import PIPE
from typing import TYPE_CHECKING

import psycopg
import pytest

from tools.generate_docs import command_words

if TYPE_CHECKING:
    from collections.abc import Generator

    from tests.cli.conftest import Cli
    from tests.cli.sample_store import SampleStore

WAKEBOARD = Path(sys.executable).with_name("wakeboard")
COMMANDS = sorted({words[0] for words in command_words()})


def start(*command: str | Path, **env: str) -> subprocess.CompletedProcess[str]:
    """Runs a command, or `wakeboard` with these arguments, in a process of its own."""
    program = command if command[0] in {"sh", "script"} else (WAKEBOARD, *command)
    environment = {**os.environ, "PYTHONIOENCODING": "utf-8", **env}
    return subprocess.run(program, capture_output=True, encoding="utf-8", env=environment, check=False, timeout=60)


@contextmanager
def running(*words: str | Path, cwd: Path | None = None) -> Generator[subprocess.Popen[str]]:
    """Starts a command in a process of its own and kills it at the end of the block."""
    process = subprocess.Popen(words, cwd=cwd, stdout=PIPE, stderr=subprocess.STDOUT, text=True)
    with process:
        try:
            yield process
        finally:
            process.kill()


def test_help_truncates_no_summary():
    assert "..." not in start("--help").stdout.partition("Commands:")[2].partition("Examples:")[0]


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_has_examples(bare_cli: Cli, command: str):
    help_text = bare_cli(command, "--help").out

    assert "Examples:" in help_text or "Commands:" in help_text


def test_the_dsn_is_accepted_anywhere_and_in_the_environment(
    bare_cli: Cli, database: str, monkeypatch: pytest.MonkeyPatch
):
    for arguments in (["--dsn", database, "runs"], ["runs", "--dsn", database], ["runs", f"--dsn={database}"]):
        assert bare_cli(*arguments).code == 0
    monkeypatch.setenv("WAKEBOARD_DSN", database)
    assert bare_cli("runs").code == 0


def test_zone_sets_the_time_zone_of_the_output(cli: Cli, sample: SampleStore, monkeypatch: pytest.MonkeyPatch):
    run = str(sample.enqueue())
    sample.sql("update wakeboard.job_runs set created_at = '2026-07-01 23:30+00'")
    sample.add_schedule("weekly-report", "0 8 * * MON", time_zone="Etc/UTC")

    assert "2026-07-01 23:30:00 UTC, by an application" in cli("run", run).out
    for words in (["run", run, "--zone", "Europe/Lisbon"], ["--zone=Europe/Lisbon", "run", run]):
        result = cli(*words).out
        assert "2026-07-02 00:30:00 +01:00, by an application" in result
        assert "timeline (Europe/Lisbon)\n  2026-07-02 00:30:00  created" in result
    monkeypatch.setenv("WAKEBOARD_ZONE", "Mars")
    assert cli("runs").err.startswith("wakeboard: WAKEBOARD_ZONE='Mars' is not a known time zone; write for example")
    monkeypatch.setenv("WAKEBOARD_ZONE", "Asia/Kathmandu")
    assert "2026-07-02 05:15:00 +05:45" in cli("run", run).out
    assert cli("run", run, "--json").json["created_at"] == "2026-07-01T23:30:00.000Z"
    assert cli("next", "weekly-report").lines[1].split()[:2] == ["LOCAL", "ASIA/KATHMANDU"]
    refused = cli("runs", "--zone", "Mars")
    assert (refused.code, refused.err) == (
        2, "wakeboard: --zone 'Mars' is not a known time zone; write for example local, UTC or Europe/Lisbon.\n",
    )  # fmt: skip


def test_the_database_of_a_running_up_is_found(bare_cli: Cli, database: str):
    Path(".wakeboard").mkdir()
    up = Path(".wakeboard/up.json")
    up.write_text(json.dumps({"pid": os.getpid(), "dsn": database}))
    assert bare_cli("runs").code == 0

    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    for stale in (json.dumps({"pid": gone.pid, "dsn": database}), "{", "[]"):
        up.write_text(stale)
        result = bare_cli("runs")
        assert result.code == 1
        assert result.err.endswith("Name a database with --dsn or WAKEBOARD_DSN, or start one with `wakeboard up`.\n")


def test_the_stopped_database_of_an_up_is_named(bare_cli: Cli, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PGHOST", "127.0.0.1")
    monkeypatch.setenv("PGPORT", "1")
    Path(".wakeboard").mkdir()
    Path(".wakeboard/postgres.log").touch()

    hint = "The database in .wakeboard/ is stopped: start it with `wakeboard up DIR`, or name another with --dsn.\n"
    assert bare_cli("runs").err.endswith(hint)
    assert hint in bare_cli("check").out
    assert hint not in bare_cli("runs", "--dsn", "host=127.0.0.1 port=1").err


def test_a_traceback_is_printed_only_in_debug_mode(database: str):
    short = start("run", "999", WAKEBOARD_DSN=database)
    long = start("run", "999", WAKEBOARD_DSN=database, WAKEBOARD_DEBUG="1")

    assert "Traceback" not in short.stderr
    assert "Traceback" in long.stderr
    assert (short.returncode, long.returncode) == (1, 1)


def test_a_closed_pipe_is_no_error(database: str, sample: SampleStore):
    sample.sql("insert into wakeboard.job_runs (job_type) select 'mail' from generate_series(1, 5000)")

    result = start("sh", "-c", f"'{WAKEBOARD}' runs --limit 5000 | head -n 1", WAKEBOARD_DSN=database)

    assert result.stdout.lstrip().startswith("ID  STATUS")
    assert result.stderr == ""


def test_ctrl_c_ends_quietly_with_130(database: str, sample: SampleStore):
    with psycopg.connect(database) as locking:
        locking.execute("lock table wakeboard.job_definitions in access exclusive mode")
        with running(WAKEBOARD, "schedules", "--dsn", database) as waiting:
            while not sample.value("select exists (select from pg_locks where not granted)"):
                assert waiting.poll() is None
                time.sleep(0.02)
            waiting.send_signal(signal.SIGINT)
            out, err = waiting.communicate(timeout=30)

    assert (waiting.returncode, out, err) == (130, "", None)


def test_colours_are_printed_only_on_terminals(database: str, sample: SampleStore):
    sample.fail(sample.enqueue(), outcome="discarded")
    on_terminal = ("script", "-qec", f"'{WAKEBOARD}' runs --dsn '{database}'", "/dev/null")

    assert "\x1b" not in start("runs", "--dsn", database).stdout
    assert "\x1b[31mdead" in start(*on_terminal, TERM="xterm").stdout
    assert "\x1b[31m" not in start(*on_terminal, TERM="xterm", NO_COLOR="1").stdout


def test_an_encoding_that_lacks_characters_is_no_error(database: str, sample: SampleStore):
    sample.enqueue("ping")
    sample.sql("update wakeboard.job_runs set schedule = 'a/größe→'")

    assert "gr??e?" in start("runs", "--dsn", database, PYTHONIOENCODING="ascii").stdout


def test_worker_runs_a_worker_with_the_options(database: str, sample: SampleStore):
    run = sample.enqueue("ping")

    result = start("worker", "--queue", "default", "--pool", "mine", "--dsn", database)

    assert result.returncode == 0
    assert "1 succeeded" in result.stderr + result.stdout
    assert sample.value("select status::text from wakeboard.all_runs where id = %s", run) == "succeeded"
    assert sample.value("select pool from wakeboard.worker_types limit 1") == "mine"


def test_a_file_in_the_place_of_the_folder_of_up_is_named(tmp_path: Path):
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop/.wakeboard").touch()
    done = subprocess.run([WAKEBOARD, "up", "shop"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert (
        f"{tmp_path}/shop/.wakeboard cannot be used: File exists. Move what is in the way, then try again."
        in done.stderr
    )
