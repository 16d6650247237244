from __future__ import annotations

import os
import signal
import sys
import time
from typing import TYPE_CHECKING

import pytest

from tests.local.up_processes import HANDLERS, Up

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="these tests look into /proc")


def test_a_first_run_finishes_seconds_after_the_start(postgres_folder: Path) -> None:
    up = Up(postgres_folder)
    up.declare("greeting", "greet", run_on_up=True)
    with up:
        line = up.wait_for("default/greeting succeeded")
        assert "run 1 " in line
        assert up.ask("select result #>> '{}' from wakeboard.job_run_history where id = 1") == "hello"


def test_ctrl_c_stops_everything_and_exits_with_0(postgres_folder: Path) -> None:
    with Up(postgres_folder) as up:
        up.wait_for("Ctrl-C stops everything")
        assert up.started()
        up.send(signal.SIGINT)
        assert up.exit_code() == 0
        assert up.started() == []
        assert not (postgres_folder / ".wakeboard" / "up.json").exists()
        assert "Traceback" not in up.said


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_so_do_sigterm_and_a_closed_terminal(postgres_folder: Path, number: signal.Signals) -> None:
    with Up(postgres_folder) as up:
        up.wait_for("Ctrl-C stops everything")
        up.send(number)
        assert up.exit_code() == 0
        assert up.started() == []


def test_ctrl_c_while_it_starts_leaves_nothing_behind(postgres_folder: Path) -> None:
    with Up(postgres_folder) as up:
        up.wait_until((postgres_folder / ".wakeboard").exists, "the folder")
        up.send(signal.SIGINT)
        up.exit_code()
        assert up.nobody_left()


def test_a_run_that_is_interrupted_is_given_back(postgres_folder: Path) -> None:
    up = Up(postgres_folder, WAKEBOARD_GRACE_SECONDS="0")
    up.declare("long", "hang", run_on_up=True)
    with up:
        up.wait_until((postgres_folder / "hanging").exists, "a run that hangs")
        up.send(signal.SIGINT)
        assert up.exit_code() == 0
        assert up.started() == []
        (postgres_folder / "hanging").unlink()
        up.declare("long", "hang")
        up.start()
        up.wait_until((postgres_folder / "hanging").exists, "the run once more")
        assert up.ask("select release_count from wakeboard.job_runs where id = 1") == 1


def test_a_second_ctrl_c_does_not_wait_for_runs(postgres_folder: Path) -> None:
    up = Up(postgres_folder, WAKEBOARD_GRACE_SECONDS="600")
    up.declare("long", "hang", run_on_up=True)
    with up:
        up.wait_until((postgres_folder / "hanging").exists, "a run that hangs")
        up.send(signal.SIGINT)
        up.wait_for("waiting for 1 worker")
        up.send(signal.SIGINT)
        assert up.exit_code() == 0
        assert up.started() == []


def test_a_killed_up_leaves_nothing_behind_and_the_next_one_goes_on(postgres_folder: Path) -> None:
    up = Up(postgres_folder)
    up.declare("greeting", "greet", run_on_up=True)
    up.write("wakeboard.env", "WAKEBOARD_UP_COMPANION=python -m http.server --bind 127.0.0.1 0")
    with up:
        up.wait_for("default/greeting succeeded")
        up.send(signal.SIGKILL)
        up.exit_code()
        assert up.nobody_left()
        up.start()
        up.wait_for("run 2     default/greeting succeeded")


def test_a_second_up_names_the_first_ones_pid(postgres_folder: Path) -> None:
    with Up(postgres_folder) as up:
        up.wait_for("Ctrl-C stops everything")
        assert up.found["pid"] == up.process.pid
        with Up(postgres_folder) as second:
            assert second.exit_code() == 1
            assert f"pid {up.process.pid}" in second.said
        assert up.process.poll() is None


def test_a_database_that_is_named_is_used_and_left_alone(postgres_folder: Path, database: str) -> None:
    up = Up(postgres_folder, dsn=database)
    up.declare("greeting", "greet", run_on_up=True)
    with up:
        up.wait_for("default/greeting succeeded")
        assert up.found["dsn"] == database
        assert not (postgres_folder / ".wakeboard" / "data").exists()


def test_edits_of_schedules_are_noticed(postgres_folder: Path) -> None:
    with Up(postgres_folder) as up:
        up.wait_for("0 schedules")
        up.declare("greeting", "greet")
        up.wait_for("1 schedule, 1 new")
        up.declare("greeting", "greet", max_attempts=7)
        up.wait_for("1 schedule, 1 changed")
        (postgres_folder / "jobs" / "greeting.yaml").unlink()
        up.wait_for("0 schedules, 1 removed")


def test_edits_of_handlers_are_read_by_the_next_worker(postgres_folder: Path) -> None:
    up = Up(postgres_folder)
    up.declare("greeting", "greet", run_on_up=True)
    with up:
        up.wait_for("default/greeting succeeded")
        up.write("handlers.py", HANDLERS.replace('"greet"', '"welcome"'))
        up.wait_for("handlers.py changed")
        run_id = up.enqueue("welcome")
        up.wait_for(f"run {run_id}     welcome succeeded")


def test_broken_handlers_are_one_sentence_until_they_are_mended(postgres_folder: Path) -> None:
    up = Up(postgres_folder)
    up.declare("greeting", "greet", run_on_up=True)
    up.write("handlers.py", "import no_such_module")
    with up:
        line = up.wait_for("cannot be imported")
        assert "No module named 'no_such_module'" in line
        assert "Traceback" not in up.said
        up.write("handlers.py", HANDLERS)
        up.wait_for("default/greeting succeeded")
        up.wait_for("workers: all is well again")


def test_a_store_that_is_looked_at_by_many_parts_is_never_in_trouble(postgres_folder: Path) -> None:
    up = Up(postgres_folder)
    up.declare("greeting", "greet", run_on_up=True)
    with up:
        up.wait_for("default/greeting succeeded")
        for number in range(20):
            run_id = up.enqueue("greet")
            up.declare("greeting", "greet", max_attempts=number + 1)
            up.wait_for(f"run {run_id}     greet succeeded" if run_id < 10 else f"run {run_id}    greet succeeded")
        assert "nesting" not in up.said
        assert "all is well again" not in up.said


def test_deleted_handlers_are_reported_until_they_are_back(postgres_folder: Path) -> None:
    up = Up(postgres_folder)
    up.declare("greeting", "greet", run_on_up=True)
    with up:
        up.wait_for("default/greeting succeeded")
        (postgres_folder / "jobs" / "handlers.py").unlink()
        up.wait_for("handlers.py is gone.")
        line = up.wait_for("no worker knows its job types")
        assert "their runs wait until it is back" in line
        run_id = up.enqueue("greet")
        up.write("handlers.py", HANDLERS)
        up.wait_for("handlers.py is there; the next worker reads it.")
        assert "all is well again" not in up.said
        up.wait_for(f"run {run_id}     greet succeeded")


def test_a_folder_that_is_back_is_no_longer_reported_missing(postgres_folder: Path) -> None:
    up = Up(postgres_folder)
    up.declare("greeting", "greet", run_on_up=True)
    with up:
        up.wait_for("default/greeting succeeded")
        (postgres_folder / "jobs").rename(postgres_folder / "away")
        up.wait_for("there is no folder")
        (postgres_folder / "away").rename(postgres_folder / "jobs")
        up.wait_for("the folder: all is well again")
        up.wait_for("1 schedule, as before")


def test_a_hostile_file_is_reported_and_up_continues(postgres_folder: Path) -> None:
    up = Up(postgres_folder)
    up.declare("greeting", "greet", run_on_up=True)
    with up:
        up.wait_for("default/greeting succeeded")
        up.write("deep.yaml", "[" * 200_000)
        up.wait_for("deep.yaml:1: it lies too many levels deep")
        (postgres_folder / "jobs" / "deep.yaml").unlink()
        os.mkfifo(postgres_folder / "jobs" / "pipe.yaml")
        up.wait_for("pipe.yaml:1: this is not a regular file")
        run_id = up.enqueue("greet")
        up.wait_for(f"run {run_id}     greet succeeded")


def test_a_broken_schedule_hides_no_other_and_is_not_removed(postgres_folder: Path) -> None:
    up = Up(postgres_folder)
    up.declare("greeting", "greet", run_on_up=True)
    up.declare("broken", "greet")
    with up:
        up.wait_for("2 schedules, 2 new")
        up.declare("broken", "greet", cron="61 * * * *")
        line = up.wait_for("broken.yaml:7")
        assert "61" in line
        up.wait_for("2 schedules, as before; of these 1 as last read")
        assert up.ask("select count(*) from wakeboard.job_definitions where removed_at is null") == 2
        up.declare("broken", "greet")
        up.wait_for("the schedules: all is well again")


def test_a_dead_run_that_is_retried_by_hand_starts_at_once(postgres_folder: Path) -> None:
    up = Up(postgres_folder)
    up.declare("fragile", "needs_a_file", run_on_up=True, max_attempts=2)
    with up:
        line = up.wait_for("is dead after 2 attempts")
        assert line.endswith("FileNotFoundError: there is no file `wanted` (once mended, type: wakeboard retry 1)")
        up.wait_for("wake over")
        (postgres_folder / "wanted").touch()
        began = time.monotonic()
        up.ask("select answer from wakeboard.retry('{1}')")
        up.wait_for("run 1     default/fragile succeeded")
        assert time.monotonic() - began < 5


def test_what_becomes_due_between_two_boundaries_is_not_left_waiting(postgres_folder: Path) -> None:
    with Up(postgres_folder) as up:
        up.wait_for("wake over")
        run_id = up.enqueue("greet", delay_s=2)
        up.wait_for(f"run {run_id}     greet succeeded")


def test_a_run_that_nobody_can_take_is_a_concern_and_wakes_one_worker_only(postgres_folder: Path) -> None:
    with Up(postgres_folder) as up:
        up.wait_for("wake over")
        up.enqueue("unheard_of")
        up.wait_for("1 run of job type unheard_of in queue default waits")
        assert up.said.count("wake over") <= 3
        run_id = up.enqueue("greet")
        up.wait_for(f"run {run_id}     greet succeeded")


def test_a_worker_is_woken_at_each_boundary(postgres_folder: Path) -> None:
    with Up(postgres_folder, wake_every_s=1.5, WAKEBOARD_LISTEN="false") as up:
        up.wait_until(lambda: up.said.count("wake over") >= 3, "three wakes")


def test_a_killed_workers_run_comes_back(postgres_folder: Path) -> None:
    up = Up(postgres_folder, WAKEBOARD_LEASE_SECONDS="2", WAKEBOARD_GRACE_SECONDS="0")
    up.declare("long", "hang", run_on_up=True)
    hanging = postgres_folder / "hanging"
    with up:
        up.wait_until(lambda: hanging.exists() and hanging.read_text(), "a run that hangs")
        first = hanging.read_text()
        os.kill(int(first), signal.SIGKILL)
        up.wait_for("the worker was ended by SIGKILL")
        up.wait_until(lambda: hanging.read_text() not in {"", first}, "the run in another worker")
        up.wait_for("default/long lost its worker and is queued again")


def test_the_program_beside_runs_as_long_as_up(postgres_folder: Path) -> None:
    up = Up(postgres_folder)
    up.write("beside.py", "print('here I am', flush=True)\nimport time\ntime.sleep(600)")
    up.write("wakeboard.env", "WAKEBOARD_UP_COMPANION=python beside.py")
    with up:
        assert "beside.py" in up.wait_for("here I am")
        up.send(signal.SIGINT)
        assert up.exit_code() == 0
        assert up.started() == []


def test_our_postgres_is_started_again_when_it_ends(postgres_folder: Path) -> None:
    with Up(postgres_folder) as up:
        up.wait_for("wake over")
        server = up.ask("select pg_read_file('postmaster.pid')").split()[0]
        os.kill(int(server), signal.SIGKILL)
        up.wait_for("PostgreSQL had ended, and was started again")
        up.wait_until(lambda: up.said.count("PostgreSQL had ended") == 1, "one restart")
        run_id = up.wait_until(lambda: _enqueue_if_up(up), "a database")
        up.wait_for(f"run {run_id}     greet succeeded")


def _enqueue_if_up(up: Up) -> int | None:
    try:
        return up.enqueue("greet")
    except Exception:  # noqa: BLE001 - it is starting
        return None
