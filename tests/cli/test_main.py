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
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest

from wakeboard.local.postgres import NOT_DURABLE, EmbeddedPostgres

if TYPE_CHECKING:
    from collections.abc import Generator

    from tests.cli.conftest import Cli
    from tests.cli.sample_store import SampleStore

WAKEBOARD = Path(sys.executable).with_name("wakeboard")
COMMANDS = (
    *(
        "schedules",
        "next",
        "runs",
        "run",
        "enqueue",
        "run-now",
        "retry",
        "cancel",
        "replay",
        "discard",
        "pause",
        "resume",
    ),
    *("limit", "confirm", "check", "worker", "up", "apply", "migrate", "version", "effects"),
)


def start(*words: str, **env: str) -> subprocess.CompletedProcess[str]:
    """Runs the entry point in a process of its own."""
    return subprocess.run(
        [WAKEBOARD, *words],
        capture_output=True,
        text=True,
        encoding="utf-8",
        env={**os.environ, **env},
        check=False,
        timeout=60,
    )


@contextmanager
def running(*words: str | Path, cwd: Path | None = None) -> Generator[subprocess.Popen[str]]:
    """Starts a command in a process of its own and kills it at the end of the block."""
    process = subprocess.Popen(words, cwd=cwd, stdout=PIPE, stderr=subprocess.STDOUT, text=True)
    with process:
        try:
            yield process
        finally:
            process.kill()


def wait_for_output(process: subprocess.Popen[str], text: str) -> None:
    """Reads the output until a line contains the text."""
    assert process.stdout is not None
    for line in process.stdout:
        if text in line:
            return
    pytest.fail(f"it ended without printing {text!r}")


def test_help_lists_every_command():
    result = start("--help")

    assert result.returncode == 0
    listed = [line.split()[0] for line in result.stdout.partition("Commands:")[2].splitlines() if line.strip()]
    assert set(COMMANDS) <= set(listed)
    assert "..." not in result.stdout.partition("Commands:")[2].partition("Examples:")[0]


def test_help_imports_nothing_heavy():
    code = (
        "import sys; from wakeboard.cli import main; main(['--help']);"
        " heavy = {'psycopg', 'pydantic', 'rich', 'yaml', 'aiohttp', 'croniter'};"
        " print(sorted(heavy & set(sys.modules)), file=sys.stderr)"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert result.stderr == "[]\n"


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_has_examples(bare_cli: Cli, command: str):
    result = bare_cli(command, "--help")

    assert result.code == 0
    assert "Examples:" in result.out or "Commands:" in result.out


def test_dsn_is_accepted_anywhere_in_the_command(bare_cli: Cli, database: str):
    assert bare_cli("--dsn", database, "runs").code == 0
    assert bare_cli("runs", "--dsn", database).code == 0
    assert bare_cli("runs", f"--dsn={database}").code == 0


def test_zone_sets_the_time_zone_of_the_output(cli: Cli, sample: SampleStore, monkeypatch: pytest.MonkeyPatch):
    run = str(sample.enqueue())
    sample.sql("update wakeboard.job_runs set created_at = '2026-07-01 23:30+00'")
    sample.add_schedule("weekly-report", "0 8 * * MON", time_zone="Etc/UTC")

    assert "2026-07-01 23:30:00 UTC, by an application" in cli("run", run).out
    for words in (["run", run, "--zone", "Europe/Lisbon"], ["--zone=Europe/Lisbon", "run", run]):
        result = cli(*words).out
        assert "2026-07-02 00:30:00 +01:00, by an application" in result
        assert "timeline (Europe/Lisbon)\n  2026-07-02 00:30:00  created" in result
    monkeypatch.setenv("WAKEBOARD_ZONE", "Asia/Kathmandu")
    assert "2026-07-02 05:15:00 +05:45" in cli("run", run).out
    assert cli("run", run, "--json").json["created_at"] == "2026-07-01T23:30:00.000Z"
    assert cli("next", "weekly-report").lines[1].split()[:2] == ["LOCAL", "ASIA/KATHMANDU"]
    refused = cli("runs", "--zone", "Mars")
    assert (refused.code, refused.err) == (
        2, "wakeboard: --zone 'Mars' is not known; write local, UTC or an IANA name, for example Europe/Lisbon.\n",
    )  # fmt: skip


def test_the_dsn_can_be_in_the_environment(bare_cli: Cli, database: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("WAKEBOARD_DSN", database)

    assert bare_cli("runs").code == 0


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


def test_a_wrong_password_is_one_sentence_without_the_password(bare_cli: Cli, postgres_folder: Path):
    with EmbeddedPostgres(postgres_folder, tcp=True, settings=NOT_DURABLE) as server:
        parts = urlsplit(server.dsn)
        wrong = urlunsplit(parts._replace(netloc=f"{parts.username}:s3cret@{parts.hostname}:{parts.port}"))
        result = bare_cli("runs", "--dsn", wrong)

    assert result.code == 1
    assert result.err.startswith("wakeboard: cannot connect to database wakeboard on 127.0.0.1:")
    assert "password authentication failed" in result.err
    assert "s3cret" not in result.err + result.out
    assert result.err.count("\n") == 1


def test_a_role_without_rights_is_one_sentence(bare_cli: Cli, database: str, sample: SampleStore):
    sample.sql("create role wakeboard_cli_stranger login")
    result = bare_cli("runs", "--dsn", database.replace("postgres@", "wakeboard_cli_stranger@"))
    sample.sql("drop role wakeboard_cli_stranger")

    assert result.err == "wakeboard: the database role may not do this: permission denied for schema wakeboard.\n"


@pytest.mark.parametrize(
    "dsn",
    [
        "postgresql://ada:s3cret@127.0.0.1:1/board",
        "host=127.0.0.1 port=1 password=s3cret",
    ],
)
def test_no_database_is_one_sentence(bare_cli: Cli, dsn: str):
    result = bare_cli("schedules", "--dsn", dsn)

    assert result.code == 1
    assert result.err.startswith("wakeboard: cannot connect to ")
    assert result.err.count("\n") == 1
    assert "s3cret" not in result.err


@pytest.mark.parametrize("dsn", ["nonsense s3cret", "ada:s3cret:s3cret@db/board", "host=db,password=s3cret"])
def test_a_dsn_that_cannot_be_read_is_one_sentence(bare_cli: Cli, dsn: str):
    result = bare_cli("schedules", "--dsn", dsn)

    assert result.code == 1
    assert result.err.startswith("wakeboard: the DSN cannot be read: ")
    assert result.err.count("\n") == 1
    assert "s3cret" not in result.err


def test_a_traceback_is_printed_only_in_debug_mode(database: str):
    short = start("run", "999", WAKEBOARD_DSN=database)
    long = start("run", "999", WAKEBOARD_DSN=database, WAKEBOARD_DEBUG="1")

    assert "Traceback" not in short.stderr
    assert "Traceback" in long.stderr
    assert (short.returncode, long.returncode) == (1, 1)


def test_a_mistyped_command_is_guessed(bare_cli: Cli):
    result = bare_cli("shedules")

    assert result.code == 2
    assert result.err.startswith("wakeboard: there is no command 'shedules'; did you mean schedules?")


def test_a_closed_pipe_is_no_error(database: str, sample: SampleStore):
    sample.sql("insert into wakeboard.job_runs (job_type) select 'mail' from generate_series(1, 20000)")
    command = f"'{WAKEBOARD}' runs --limit 20000 | head -n 1"

    result = subprocess.run(
        ["sh", "-c", command],
        capture_output=True,
        text=True,
        env={**os.environ, "WAKEBOARD_DSN": database},
        check=False,
    )

    assert result.stdout.startswith("   ID  STATUS")
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
    command = f"'{WAKEBOARD}' runs --dsn '{database}'"

    plain = start("runs", "--dsn", database).stdout
    shown = subprocess.run(
        ["script", "-qec", command, "/dev/null"],
        capture_output=True,
        text=True,
        env={**os.environ, "TERM": "xterm"},
        check=True,
    ).stdout
    without = subprocess.run(
        ["script", "-qec", command, "/dev/null"],
        capture_output=True,
        text=True,
        env={**os.environ, "TERM": "xterm", "NO_COLOR": "1"},
        check=True,
    ).stdout

    assert "\x1b" not in plain
    assert "\x1b[31mdead" in shown
    assert "\x1b[31m" not in without


def test_an_encoding_that_lacks_characters_is_no_error(database: str, sample: SampleStore):
    sample.enqueue("ping")
    sample.sql("update wakeboard.job_runs set schedule = 'a/größe→'")

    result = subprocess.run(
        [WAKEBOARD, "runs", "--dsn", database],
        capture_output=True,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
        check=True,
    )

    assert b"gr??e?" in result.stdout


def test_worker_runs_a_worker_with_the_options(database: str, sample: SampleStore):
    run = sample.enqueue("ping")

    result = start("worker", "--queue", "default", "--pool", "mine", "--dsn", database)

    assert result.returncode == 0
    assert "1 succeeded" in result.stderr + result.stdout
    assert sample.value("select status::text from wakeboard.all_runs where id = %s", run) == "succeeded"
    assert sample.value("select pool from wakeboard.worker_types limit 1") == "mine"


def test_worker_has_the_exit_code_of_the_worker(database: str):
    result = start("worker", "--handlers", "no.such.module", "--dsn", database)

    assert result.returncode == 1
    assert "no.such.module" in result.stderr


def test_worker_stops_at_sigterm(database: str, sample: SampleStore):
    with running(WAKEBOARD, "worker", "--forever", "--dsn", database) as worker:
        while not sample.value("select count(*) from wakeboard.workers"):
            assert worker.poll() is None
            time.sleep(0.02)
        worker.terminate()
        worker.communicate(timeout=30)

    assert worker.returncode == 0


def test_up_runs_a_folder_and_other_commands_find_it(postgres_folder: Path):
    schedules = postgres_folder / "schedules"
    schedules.mkdir()
    (schedules / "hello.yaml").write_text(
        "apiVersion: wakeboard.dev/v1alpha1\nkind: JobSchedule\nmetadata: {name: hello}\n"
        "spec: {jobType: ping, schedule: '@yearly'}\n"
    )
    with running(WAKEBOARD, "up", "schedules", "--no-live", cwd=postgres_folder) as up:
        wait_for_output(up, "Ctrl-C stops everything")
        listed = subprocess.run([WAKEBOARD, "schedules", "--json"], cwd=postgres_folder, stdout=PIPE, check=True)
        made = subprocess.run([WAKEBOARD, "run-now", "hello"], cwd=postgres_folder, stdout=PIPE, check=True)
        wait_for_output(up, "default/hello succeeded")
        up.send_signal(signal.SIGINT)
        up.communicate(timeout=60)

    assert [row["name"] for row in json.loads(listed.stdout)] == ["hello"]
    assert made.stdout == b"run 1 of default/hello is queued, due now.\n"
    assert up.returncode == 0


def test_up_reports_a_missing_folder(bare_cli: Cli):
    assert bare_cli("up", "nowhere").err.startswith("wakeboard: there is no folder nowhere")
