"""What is true of every command: start, help, errors, signals, pipes."""

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

    from tests.cli.conftest import Type
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
    """The real entry point, in a process of its own."""
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
    """A command in a process of its own, which does not outlive the block."""
    process = subprocess.Popen(words, cwd=cwd, stdout=PIPE, stderr=subprocess.STDOUT, text=True)
    with process:
        try:
            yield process
        finally:
            process.kill()


def hear(process: subprocess.Popen[str], words: str) -> None:
    """Waits until it says so."""
    assert process.stdout is not None
    for line in process.stdout:
        if words in line:
            return
    pytest.fail(f"it ended without saying {words!r}")


def test_help_lists_every_command():
    said = start("--help")

    assert said.returncode == 0
    listed = [line.split()[0] for line in said.stdout.partition("Commands:")[2].splitlines() if line.strip()]
    assert set(COMMANDS) <= set(listed)
    assert "..." not in said.stdout.partition("Commands:")[2].partition("Examples:")[0]


def test_help_imports_nothing_heavy():
    code = (
        "import sys; from wakeboard.cli import main; main(['--help']);"
        " heavy = {'psycopg', 'pydantic', 'rich', 'yaml', 'aiohttp', 'croniter'};"
        " print(sorted(heavy & set(sys.modules)), file=sys.stderr)"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert said.stderr == "[]\n"


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_teaches(type_anywhere: Type, command: str):
    said = type_anywhere(command, "--help")

    assert said.code == 0
    assert "Examples:" in said.out or "Commands:" in said.out


def test_the_database_may_be_said_anywhere(type_anywhere: Type, database: str):
    assert type_anywhere("--dsn", database, "runs").code == 0
    assert type_anywhere("runs", "--dsn", database).code == 0
    assert type_anywhere("runs", f"--dsn={database}").code == 0


def test_times_are_shown_in_a_zone(type_command: Type, story: SampleStore, monkeypatch: pytest.MonkeyPatch):
    run = str(story.enqueue())
    story.sql("update wakeboard.job_runs set created_at = '2026-07-01 23:30+00'")
    story.declare("weekly-report", "0 8 * * MON", time_zone="Etc/UTC")

    assert "2026-07-01 23:30:00 UTC, by an application" in type_command("run", run).out
    for words in (["run", run, "--zone", "Europe/Lisbon"], ["--zone=Europe/Lisbon", "run", run]):
        said = type_command(*words).out
        assert "2026-07-02 00:30:00 +01:00, by an application" in said
        assert "timeline (Europe/Lisbon)\n  2026-07-02 00:30:00  made" in said
    monkeypatch.setenv("WAKEBOARD_ZONE", "Asia/Kathmandu")
    assert "2026-07-02 05:15:00 +05:45" in type_command("run", run).out
    assert type_command("run", run, "--json").json["created_at"] == "2026-07-01T23:30:00.000Z"
    assert type_command("next", "weekly-report").lines[1].split()[:2] == ["LOCAL", "ASIA/KATHMANDU"]
    refused = type_command("runs", "--zone", "Mars")
    assert (refused.code, refused.err) == (
        2, "wakeboard: --zone 'Mars' is not known; write local, UTC or an IANA name, for example Europe/Lisbon.\n",
    )  # fmt: skip


def test_the_database_comes_from_the_environment_too(
    type_anywhere: Type, database: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("WAKEBOARD_DSN", database)

    assert type_anywhere("runs").code == 0


def test_a_running_up_in_this_folder_is_found(type_anywhere: Type, database: str):
    Path(".wakeboard").mkdir()
    up = Path(".wakeboard/up.json")
    up.write_text(json.dumps({"pid": os.getpid(), "dsn": database}))
    assert type_anywhere("runs").code == 0

    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    for stale in (json.dumps({"pid": gone.pid, "dsn": database}), "{", "[]"):
        up.write_text(stale)
        said = type_anywhere("runs")
        assert said.code == 1
        assert said.err.endswith("Say which database with --dsn or WAKEBOARD_DSN, or start one with `wakeboard up`.\n")


def test_a_wrong_password_is_one_sentence_without_the_password(type_anywhere: Type, postgres_folder: Path):
    with EmbeddedPostgres(postgres_folder, tcp=True, settings=NOT_DURABLE) as server:
        parts = urlsplit(server.dsn)
        wrong = urlunsplit(parts._replace(netloc=f"{parts.username}:s3cret@{parts.hostname}:{parts.port}"))
        said = type_anywhere("runs", "--dsn", wrong)

    assert said.code == 1
    assert said.err.startswith("wakeboard: cannot connect to database wakeboard on 127.0.0.1:")
    assert "password authentication failed" in said.err
    assert "s3cret" not in said.err + said.out
    assert said.err.count("\n") == 1


def test_a_role_without_rights_is_one_sentence(type_anywhere: Type, database: str, story: SampleStore):
    story.sql("create role wakeboard_cli_stranger login")
    said = type_anywhere("runs", "--dsn", database.replace("postgres@", "wakeboard_cli_stranger@"))
    story.sql("drop role wakeboard_cli_stranger")

    assert said.err == "wakeboard: the database role may not do this: permission denied for schema wakeboard.\n"


@pytest.mark.parametrize(
    "dsn",
    [
        "postgresql://ada:s3cret@127.0.0.1:1/board",
        "host=127.0.0.1 port=1 password=s3cret",
    ],
)
def test_no_database_is_one_sentence(type_anywhere: Type, dsn: str):
    said = type_anywhere("schedules", "--dsn", dsn)

    assert said.code == 1
    assert said.err.startswith("wakeboard: cannot connect to ")
    assert said.err.count("\n") == 1
    assert "s3cret" not in said.err


@pytest.mark.parametrize("dsn", ["nonsense s3cret", "ada:s3cret:s3cret@db/board", "host=db,password=s3cret"])
def test_a_dsn_that_cannot_be_read_is_one_sentence(type_anywhere: Type, dsn: str):
    said = type_anywhere("schedules", "--dsn", dsn)

    assert said.code == 1
    assert said.err.startswith("wakeboard: the DSN cannot be read: ")
    assert said.err.count("\n") == 1
    assert "s3cret" not in said.err


def test_a_traceback_is_shown_only_when_asked_for(database: str):
    short = start("run", "999", WAKEBOARD_DSN=database)
    long = start("run", "999", WAKEBOARD_DSN=database, WAKEBOARD_DEBUG="1")

    assert "Traceback" not in short.stderr
    assert "Traceback" in long.stderr
    assert (short.returncode, long.returncode) == (1, 1)


def test_a_mistyped_command_is_guessed(type_anywhere: Type):
    said = type_anywhere("shedules")

    assert said.code == 2
    assert said.err.startswith("wakeboard: there is no command 'shedules'; did you mean schedules?")


def test_a_reader_that_has_seen_enough_is_no_error(database: str, story: SampleStore):
    story.sql("insert into wakeboard.job_runs (job_type) select 'mail' from generate_series(1, 20000)")
    command = f"'{WAKEBOARD}' runs --limit 20000 | head -n 1"

    said = subprocess.run(
        ["sh", "-c", command],
        capture_output=True,
        text=True,
        env={**os.environ, "WAKEBOARD_DSN": database},
        check=False,
    )

    assert said.stdout.startswith("   ID  STATUS")
    assert said.stderr == ""


def test_ctrl_c_ends_quietly_with_130(database: str, story: SampleStore):
    with psycopg.connect(database) as locking:
        locking.execute("lock table wakeboard.job_definitions in access exclusive mode")
        with running(WAKEBOARD, "schedules", "--dsn", database) as waiting:
            while not story.value("select exists (select from pg_locks where not granted)"):
                assert waiting.poll() is None
                time.sleep(0.02)
            waiting.send_signal(signal.SIGINT)
            out, err = waiting.communicate(timeout=30)

    assert (waiting.returncode, out, err) == (130, "", None)


def test_colours_are_only_for_terminals(database: str, story: SampleStore):
    story.fail(story.enqueue(), outcome="discarded")
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


def test_a_narrow_encoding_loses_letters_not_the_answer(database: str, story: SampleStore):
    story.enqueue("ping")
    story.sql("update wakeboard.job_runs set schedule = 'a/größe→'")

    said = subprocess.run(
        [WAKEBOARD, "runs", "--dsn", database],
        capture_output=True,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
        check=True,
    )

    assert b"gr??e?" in said.stdout


def test_a_worker_in_the_foreground_is_the_worker(database: str, story: SampleStore):
    run = story.enqueue("ping")

    said = start("worker", "--queue", "default", "--pool", "mine", "--dsn", database)

    assert said.returncode == 0
    assert "1 succeeded" in said.stderr + said.stdout
    assert story.value("select status::text from wakeboard.all_runs where id = %s", run) == "succeeded"
    assert story.value("select pool from wakeboard.worker_types limit 1") == "mine"


def test_a_worker_whose_wake_cannot_work_gives_its_exit_code(database: str):
    said = start("worker", "--handlers", "no.such.module", "--dsn", database)

    assert said.returncode == 1
    assert "no.such.module" in said.stderr


def test_a_worker_is_stopped_by_the_signals_of_its_command(database: str, story: SampleStore):
    with running(WAKEBOARD, "worker", "--forever", "--dsn", database) as worker:
        while not story.value("select count(*) from wakeboard.workers"):
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
        hear(up, "Ctrl-C stops everything")
        listed = subprocess.run([WAKEBOARD, "schedules", "--json"], cwd=postgres_folder, stdout=PIPE, check=True)
        made = subprocess.run([WAKEBOARD, "run-now", "hello"], cwd=postgres_folder, stdout=PIPE, check=True)
        hear(up, "default/hello succeeded")
        up.send_signal(signal.SIGINT)
        up.communicate(timeout=60)

    assert [row["name"] for row in json.loads(listed.stdout)] == ["hello"]
    assert made.stdout == b"run 1 of default/hello is queued, due now.\n"
    assert up.returncode == 0


def test_up_says_what_folder_is_missing(type_anywhere: Type):
    assert type_anywhere("up", "nowhere").err.startswith("wakeboard: there is no folder nowhere")
