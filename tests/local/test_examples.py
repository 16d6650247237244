from __future__ import annotations

import json
import shutil
import socket
import sys
from typing import TYPE_CHECKING

import pytest

from tests.local.up_process import ROOT, Up

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="these tests read /proc")

PORT = "48123"  # of receiver.py


def _free_port() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])


@pytest.fixture
def demo(postgres_folder: Path) -> Iterator[Up]:
    """A copy of the examples with another port for receiver.py, because `make demo` may run during the tests."""
    jobs = postgres_folder / "jobs"
    shutil.copytree(ROOT / "examples" / "shop", jobs, ignore=shutil.ignore_patterns("out", "__pycache__", ".wakeboard"))
    port = _free_port()
    for path in [jobs / "wakeboard.env", *jobs.glob("*.yaml")]:
        path.write_text(path.read_text().replace(PORT, port))
    with Up(postgres_folder) as up:
        yield up


def history(up: Up, schedule: str) -> tuple[str, dict[str, object]]:
    """The status and attempts of the schedule's first run, and its result."""
    columns = "select status || ' ' || attempts || ' ' || result from wakeboard.job_run_history"
    status, attempts, result = up.query(f"{columns} where schedule = %s order by id limit 1", schedule).split(" ", 2)
    return f"{status} {attempts}", json.loads(result)


def test_every_example_does_what_its_readme_says(demo: Up) -> None:
    snapshots = demo.folder / "jobs" / "out" / "snapshots"
    snapshots.mkdir(parents=True)
    for number in range(9):
        (snapshots / f"2026-01-0{number}T00-00.json").touch()
    demo.wait_for("shop/weekly-report succeeded")
    status, result = history(demo, "shop/weekly-report")
    assert status == "succeeded 1"
    assert "The best customers" in (demo.folder / str(result["report"])).read_text()

    demo.wait_for("shop/notify-partner succeeded")  # 503 at first, then accepted, with the same key
    assert history(demo, "shop/notify-partner")[0] == "succeeded 2"
    demo.wait_for("receiver.py  ")

    demo.wait_for("shop/import-rates succeeded")
    assert history(demo, "shop/import-rates")[0] == "succeeded 3"

    demo.wait_for("payment_received succeeded")  # delivered twice, one run; failed after the booking, one booking
    runs = "select count(*) as runs from wakeboard.all_runs where job_type = 'payment_received' group by payload"
    assert demo.query(f"select max(runs) from ({runs})") == 1
    assert demo.query("select max(bookings) from (select count(*) as bookings from payments group by event)") == 1

    line = demo.wait_for("shop/close-month is dead")
    assert "touch jobs/out/approved" in line
    (demo.folder / "jobs" / "out" / "approved").touch()
    run_id = demo.query("select id from wakeboard.job_runs where status = 'dead'")
    demo.query("select answer from wakeboard.retry(array[%s]::bigint[])", run_id)
    demo.wait_for("shop/close-month succeeded")

    demo.query("select wakeboard.run_now(id) from wakeboard.job_definitions where name = 'clean-up'")
    demo.wait_for("shop/clean-up succeeded")
    kept = {path.name[:10] for path in snapshots.iterdir()}
    assert "2026-01-08" in kept
    assert not kept & {"2026-01-00", "2026-01-01", "2026-01-02", "2026-01-03"}
