from __future__ import annotations

import json
import os
import signal
import socket
import sys
import urllib.error
import urllib.request
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.local.up_process import HANDLERS, Up
from wakeboard.local.up import home_of, up_file
from wakeboard.process.running_up import running_up

if TYPE_CHECKING:
    from wakeboard.local.messages import UpLine

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="these tests read /proc")


@pytest.fixture
def up(postgres_folder: Path, database: str) -> Up:
    """`wakeboard up` on a database that there is, with the schedule `greeting`, which runs at the start."""
    up = Up(postgres_folder, dsn=database)
    up.declare("greeting", "greet", run_on_up=True)
    return up


def test_sigterm_stops_all_processes_and_exits_with_0(postgres_folder: Path) -> None:
    with Up(postgres_folder) as up:
        up.wait_for("Ctrl-C stops everything")
        assert up.children()
        up.stop(signal.SIGTERM)
        assert not (postgres_folder / ".wakeboard").exists()
        assert not (postgres_folder / "jobs/.wakeboard/up.json").exists()
        assert "Traceback" not in up.output


def test_ctrl_c_during_the_start_leaves_no_process(postgres_folder: Path) -> None:
    with Up(postgres_folder) as up:
        up.wait_until((postgres_folder / "jobs/.wakeboard").exists, "the folder")
        up.send(signal.SIGINT)
        up.exit_code()
        up.wait_for_no_children()


def test_a_second_ctrl_c_does_not_wait_for_runs(postgres_folder: Path, database: str) -> None:
    up = Up(postgres_folder, dsn=database, WAKEBOARD_GRACE_SECONDS="600")
    up.declare("long", "hang", run_on_up=True)
    with up:
        up.wait_until((postgres_folder / "hanging").exists, "a run that hangs")
        up.send(signal.SIGINT)
        up.wait_for("Waiting for 1 worker")
        up.stop()


def test_a_killed_up_leaves_no_process_and_can_be_started_again(postgres_folder: Path) -> None:
    up = Up(postgres_folder)
    up.declare("greeting", "greet", run_on_up=True)
    up.write("wakeboard.env", "WAKEBOARD_UP_COMPANION=python -m http.server --bind 127.0.0.1 0")
    with up:
        up.wait_for("default/greeting succeeded")
        up.send(signal.SIGKILL)
        up.exit_code()
        up.wait_for_no_children()
        up.start()
        up.wait_for("run 2     default/greeting succeeded")


def test_a_companion_that_fails_is_a_problem(up: Up) -> None:
    up.write("wakeboard.env", "WAKEBOARD_UP_COMPANION=python -c 'raise SystemExit(\"port 1 is taken\")'")
    with up:
        up.wait_for("The companion process ended with code 1.")
        assert "port 1 is taken" in up.output


def test_changed_schedules_are_synced(postgres_folder: Path, database: str) -> None:
    with Up(postgres_folder, dsn=database) as up:
        up.wait_for("0 schedules")
        up.declare("greeting", "greet")
        up.wait_for("1 schedule, 1 created")
        up.declare("greeting", "greet", max_attempts=7)
        up.wait_for("1 schedule, 1 updated")
        up.declare("farewell", "greet")
        up.wait_for("2 schedules, 1 created")
        (postgres_folder / "jobs" / "greeting.yaml").unlink()
        up.wait_for("1 schedule, 1 removed")
        up.declare("greeting", "greet")
        up.wait_for("2 schedules, 1 updated")


def test_broken_handlers_are_one_problem_until_they_are_fixed(up: Up) -> None:
    up.write("handlers.py", "import no_such_module")
    with up:
        line = up.wait_for("cannot be imported")
        assert "No module named 'no_such_module'" in line
        assert "Traceback" not in up.output
        up.write("handlers.py", HANDLERS)
        up.wait_for("default/greeting succeeded")
        assert "cannot be imported" in up.wait_for("resolved: ")


def test_deleted_handlers_and_a_missing_folder_are_problems_until_they_exist_again(up: Up) -> None:
    with up:
        up.wait_for("default/greeting succeeded")
        (up.folder / "jobs" / "handlers.py").unlink()
        up.wait_for("handlers.py was deleted.")
        up.wait_for("Runs of its job types wait until the file exists again.")
        run_id = up.enqueue("greet")
        up.write("handlers.py", HANDLERS)
        up.wait_for("handlers.py exists again. The next worker loads it.")
        assert "resolved: " not in up.output
        up.wait_for_success(run_id)
        (up.folder / "jobs").rename(up.folder / "away")
        up.wait_for("there is no folder")
        (up.folder / "away").rename(up.folder / "jobs")
        up.wait_for("resolved: there is no folder")
        up.wait_for("1 schedule, unchanged")


def test_an_invalid_schedule_hides_no_other_and_is_not_removed(up: Up) -> None:
    up.declare("broken", "greet")
    with up:
        up.wait_for("2 schedules, 2 created")
        up.declare("broken", "greet", cron="61 * * * *")
        assert "61" in up.wait_for("broken.yaml:7")
        up.wait_for("2 schedules, unchanged; 1 schedule kept as last loaded")
        assert up.query("select count(*) from wakeboard.job_definitions where removed_at is null") == 2
        up.declare("broken", "greet")
        assert "broken.yaml:7" in up.wait_for("resolved: ")


def test_changed_alert_rules_are_counted_and_mistakes_are_problems(up: Up) -> None:
    rules = "apiVersion: wakeboard.dev/v1alpha1\nkind: AlertRules\nspec:\n  rules:\n    - {name: dead, dead: %s}\n"
    file = up.folder / "jobs" / "alerts.yaml"
    file.write_text(rules % 1)
    with up:
        up.wait_for("Alerts: 1 rule, 0 receivers.")
        file.write_text(rules % 0)
        assert "dead is 0; write a whole number" in up.wait_for("alerts.yaml:5")
        receiver = "  receivers: [{name: x, slack: {url: {$secret: my-hook}}}]\n"
        file.write_text(rules % 1 + receiver)
        up.wait_for("Receivers cannot be reached without WAKEBOARD_SECRET_MY_HOOK: set it in wakeboard.env.")
        file.unlink()
        up.wait_for("Alerts: 0 rules, 0 receivers.")


def test_a_worker_that_stays_delivers_alerts_of_rules_that_are_new(postgres_folder: Path, database: str) -> None:
    spec = '{rules: [], receivers: [{name: team, webhook: {url: "http://127.0.0.1:1/"}}]}'
    with Up(postgres_folder, dsn=database, WAKEBOARD_DRAIN_LOOKAHEAD_SECONDS="300") as up:
        up.wait_for("Ctrl-C stops everything")
        up.enqueue("greet", delay_s=250)  # the worker waits for it
        up.wait_for_success(up.enqueue("greet"))
        up.write("alerts.yaml", f"apiVersion: wakeboard.dev/v1alpha1\nkind: AlertRules\nspec: {spec}\n")
        up.wait_for("Alerts: 0 rules, 1 receiver.")
        run_id = up.query("select wakeboard.send_test_notification('team')")
        assert "127.0.0.1:1" in up.wait_for(f"{f'run {run_id}':<8}  wakeboard.alert is dead")


def test_a_dead_run_that_is_retried_manually_starts_at_once(postgres_folder: Path, database: str) -> None:
    up = Up(postgres_folder, dsn=database)
    up.declare("fragile", "needs_a_file", run_on_up=True, max_attempts=2)
    with up:
        line = up.wait_for("is dead after 2 attempts")
        assert line.endswith("FileNotFoundError: there is no file `wanted` (to retry it: wakeboard retry 1)")
        up.wait_for("worker finished")
        (postgres_folder / "wanted").touch()
        up.query("select answer from wakeboard.retry('{1}')")
        up.wait_for("run 1     default/fragile succeeded")  # long before the next wake


def test_a_run_without_a_handler_spawns_only_one_worker(postgres_folder: Path, database: str) -> None:
    with Up(postgres_folder, dsn=database, WAKEBOARD_LOG_LEVEL="debug") as up:
        up.wait_for("worker finished")
        up.enqueue("unknown")
        up.wait_for("Runs of job type unknown cannot start: no worker of queue default has a handler for it")
        assert up.output.count("worker finished") <= 3
        up.wait_for_success(up.enqueue("greet"))


def test_a_worker_is_spawned_at_each_wake(postgres_folder: Path, database: str) -> None:
    with Up(
        postgres_folder, dsn=database, wake_interval_s=1.5, WAKEBOARD_LISTEN="false", WAKEBOARD_LOG_LEVEL="debug"
    ) as up:
        up.wait_until(lambda: up.output.count("worker finished") >= 3, "three wakes")


def test_a_run_after_a_workers_last_claim_starts_when_it_exits(postgres_folder: Path, database: str) -> None:
    up = Up(postgres_folder, dsn=database, WAKEBOARD_GRACE_SECONDS="600")
    up.declare("long", "hang", run_on_up=True)
    hanging = postgres_folder / "hanging"
    with up:
        worker = int(up.wait_until(lambda: hanging.exists() and hanging.read_text(), "a worker"))
        os.kill(worker, signal.SIGTERM)  # it waits for its run and claims no more
        run_id = up.enqueue("greet")
        up.wait_until(lambda: up.query("select pg_notification_queue_usage() = 0"), "the notification is read")
        # Again until it has ended: if the first signal still waits, a second one is lost.
        up.wait_until(lambda: not _sent(signal.SIGTERM, worker), "the end of the worker")
        up.wait_for_success(run_id)
        up.send(signal.SIGINT)  # the next worker has the run that hangs
        up.wait_for("Waiting for 1 worker")
        up.stop()


def test_a_postgres_that_exits_is_restarted(postgres_folder: Path) -> None:
    with Up(postgres_folder, WAKEBOARD_LOG_LEVEL="debug") as up:
        up.wait_for("worker finished")
        server = up.query("select pg_read_file('postmaster.pid')").split()[0]
        os.kill(int(server), signal.SIGKILL)
        up.wait_for("PostgreSQL exited and was restarted")
        run_id = up.wait_until(lambda: _enqueue_if_available(up), "a database")
        up.wait_for_success(run_id)
        assert up.output.count("PostgreSQL exited") == 1


def _enqueue_if_available(up: Up) -> int | None:
    try:
        return up.enqueue("greet")
    except Exception:  # noqa: BLE001 - it is starting
        return None


def test_up_prints_the_boards_address_and_takes_another_port(postgres_folder: Path, database: str) -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as other,
        Up(postgres_folder, dsn=database, board_port=other.getsockname()[1]) as up,
    ):
        line = up.wait_for("The web board is at http://127.0.0.1:")
        address = line.split()[-1]
        browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
        for opened in (address, address.partition("?")[0]):
            with browser.open(opened, timeout=10) as page:
                assert "Overview" in page.read().decode()
        with pytest.raises(urllib.error.HTTPError, match="401"):  # another user of the machine
            urllib.request.urlopen(address.partition("?")[0], timeout=10)
        run_id = up.enqueue("board_url")
        up.wait_for_success(run_id, "board_url")
        result = f"select result from wakeboard.job_run_history where id = {run_id}"
        assert up.query(result) == address.partition("?")[0], "workers do not know the board's address"
        up.send(signal.SIGINT)
        assert up.exit_code() in {0, 130}


def _sent(number: signal.Signals, pid: int) -> bool:
    """Sends a signal; False if the process has ended."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return False
    return True


def test_a_second_up_leaves_the_first_ones_database_to_the_commands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("first", "second"):
        (tmp_path / name / ".wakeboard").mkdir(parents=True)
    said: list[UpLine] = []
    with up_file(tmp_path / "first/.wakeboard", "dsn of first", datetime.now(UTC), said.append):
        content = json.loads(Path(".wakeboard/up.json").read_text())
        Path(".wakeboard/up.json").write_text(json.dumps({**content, "pid": os.getppid()}))
        assert not said
        with up_file(tmp_path / "second/.wakeboard", "dsn of second", datetime.now(UTC), said.append):
            assert running_up()["dsn"] == "dsn of first"
            assert running_up(tmp_path / "second/.wakeboard/up.json")["dsn"] == "dsn of second"
            assert f"(process {os.getppid()})" in said[0].text
        assert running_up()["dsn"] == "dsn of first"


def test_a_folder_that_cannot_be_written_has_its_database_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)

    assert home_of(Path("/proc")) == Path(".wakeboard")
    assert "/proc cannot be written" in capsys.readouterr().out
    assert home_of(tmp_path) == tmp_path / ".wakeboard"
