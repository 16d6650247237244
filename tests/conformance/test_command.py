"""`wakeboard conformance`: its report, its exit code, and what it refuses."""

from __future__ import annotations

import gc
import json
import os
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from testbed.processes import OUR_PACKAGES, inherited_environment, wait_for
from wakeboard.conformance.scenario import Scenario
from wakeboard.conformance.scenarios.failover import RESTORE
from wakeboard.conformance.tcp_proxy import TcpProxy
from wakeboard.conformance.worker_output import WorkerOutput

if TYPE_CHECKING:
    from wakeboard.conformance.harness import Harness
    from wakeboard.conformance.suite import Suite

COMMAND = [sys.executable, "-c", "import sys; from wakeboard.cli import main; sys.exit(main())", "conformance"]


def environment() -> dict[str, str]:
    handlers = {"WAKEBOARD_HANDLERS": "wakeboard.conformance.handlers"}
    return {**inherited_environment(), "PYTHONPATH": OUR_PACKAGES, **handlers}


def conformance(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *words], env=environment(), capture_output=True, text=True, timeout=100, check=False
    )


def test_it_reports_which_promises_were_kept():
    answer = conformance("--json", "--only", "result", "--", sys.executable, "-m", "wakeboard_worker", "--forever")
    assert answer.returncode == 0, answer.stdout + answer.stderr
    (result,) = json.loads(answer.stdout)
    assert (result["scenario"], result["held"], result["found"]) == ("result", True, "")

    answer = conformance("--only", "result", "--", sys.executable, "-c", "print('no such table')")
    assert answer.returncode == 1, answer.stderr
    assert "the worker ended with exit code 0, before SIGTERM" in answer.stdout
    assert "| no such table" in answer.stdout
    assert "0 of 1 scenarios held." in answer.stdout


def test_an_unknown_program_or_scenario_is_refused_at_once():
    missing = conformance("--", os.devnull + "/worker")
    assert missing.returncode == 1
    assert "there is no program" in missing.stderr
    unknown = conformance("--only", "resullt", "--", sys.executable)
    assert unknown.returncode == 2
    assert "there is no scenario 'resullt'" in unknown.stderr


# A worker that ignores signals, and a process of it that has left its session.
STUBBORN = """
import os, pathlib, signal, sys, time
for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, signal.SIG_IGN)
name = "worker" if os.fork() else "detached"
if name == "detached":
    os.setsid()
pathlib.Path(sys.argv[1], name).write_text(str(os.getpid()))
time.sleep(600)
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_leaves_no_process_of_the_worker_and_no_files(tmp_path: Path, number: signal.Signals):
    (pids := tmp_path / "pids").mkdir()
    words = ["--only", "cancel", "--", sys.executable, "-c", STUBBORN, str(pids)]
    with subprocess.Popen([*COMMAND, *words], env={**environment(), "TMPDIR": str(tmp_path)}) as process:
        files = [pids / "worker", pids / "detached"]
        started = [int(wait_for(lambda file=file: file.exists() and file.read_text())) for file in files]
        process.send_signal(number)
        assert process.wait(60) == 128 + number
    assert [pid for pid in started if runs(pid)] == []
    assert list(tmp_path.iterdir()) == [pids]


def runs(pid: int) -> bool:
    """Whether a process executes. One that has ended stays in the process table until its parent has waited for it."""
    try:
        os.kill(pid, 0)
        return not Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].startswith(" Z")
    except (ProcessLookupError, FileNotFoundError):
        return False


def test_a_locked_row_does_not_end_the_maintenance(suite: Suite, server_dsn: str):
    """As when a worker records that the database is another server's, while the suite reaps."""

    def lock(harness: Harness) -> None:
        ((name,),) = harness.rows(b"select current_database()")
        harness.reaps = False
        harness.do(RESTORE)
        with psycopg.connect(make_conninfo(server_dsn, dbname=name)) as conn:
            conn.execute("select from wakeboard.installation for update")
            harness.reaps = True
            refused = b"select exists (select from pg_stat_activity where application_name = %s"
            harness.wait(
                "nothing reaped",
                refused + b" and query like %s and state = 'idle')",
                "conformance reaper locked",
                "%reap(%",
            )
        harness.wait(
            "nothing reaped again", b"select server_started_at = pg_postmaster_start_time() from wakeboard.installation"
        )

    (result,) = suite.run([sys.executable], [Scenario("locked", "", "", lock)])
    assert result.held, result.found


def test_only_the_end_of_an_endless_output_is_kept():
    flood = "import os\nfor number in range(3000): os.write(1, b'flood ' * 4000)\nos.write(2, b'\\nthe end')"
    with subprocess.Popen([sys.executable, "-c", flood], stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        assert process.stdout
        output = WorkerOutput(process.stdout)
        assert process.wait(60) == 0
        output.wait()
    assert output.text.endswith("flood \nthe end")
    assert len(output.text) == 65_536


def test_a_proxy_that_stops_ends_connections_that_say_nothing():
    proxy = TcpProxy("/nowhere")
    proxy.start()
    silent = [socket.create_connection(("127.0.0.1", proxy.port), 10) for _ in range(20)]
    proxy.stop()
    for client in silent:
        with client, suppress(ConnectionResetError):
            assert client.recv(1) == b""
    gc.collect()  # a transport that is still open warns
