"""While a handler runs: the heartbeat, progress, timeouts and cancellations, and a crash of the worker."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from wakeboard.conformance.harness import LEASE_S, Violated, expect
from wakeboard.conformance.scenario import SLACK_S, Scenario, registration
from wakeboard.text.humanize import counted

if TYPE_CHECKING:
    from wakeboard.conformance.harness import Harness

LEASES: Final[list[Scenario]] = []
scenario = registration(LEASES)


@scenario(
    "progress reaches the database while the handler runs, with its message",
    "users cannot distinguish a long run from one that hangs",
)
def progress(harness: Harness) -> None:
    run = harness.one("wait", {"seconds": 20})
    harness.start()
    harness.wait(
        "the progress of 0.5 with the message 'half' did not arrive",
        b"select progress = 0.5 and progress_message = 'half' from wakeboard.job_runs where id = %s",
        run,
    )


@scenario(
    "a run that takes longer than a lease succeeds in its first attempt",
    "without a heartbeat every long run is given to a second worker while the first still executes it",
)
def heartbeat(harness: Harness) -> None:
    takes_s = 1.5 * LEASE_S
    run = harness.one("wait", {"seconds": takes_s})
    harness.start()
    harness.noted(run, "started")
    epoch = harness.leases(run)[0]
    ended = b"select status = 'succeeded' or lease_epoch <> %s from wakeboard.all_runs where id = %s"
    harness.wait("the run did not end", ended, epoch, run, within_s=takes_s + SLACK_S)
    expect(harness.run(run)["lease_epoch"] == epoch, "its lease expired while the handler ran")


@scenario(
    "a handler is stopped at the timeout of its run, and the attempt fails",
    "a handler that hangs keeps its slot until the worker is restarted",
)
def timeout(harness: Harness) -> None:
    run = harness.one("wait", {"seconds": 60}, timeout_s=1, max_attempts=1)
    harness.start()
    harness.noted(run, "started")
    harness.noted(run, "stopped", within_s=1 + SLACK_S)
    row = harness.ended(run, "dead", within_s=SLACK_S)
    outcome = harness.rows(b"select outcome from wakeboard.job_attempts where run_id = %s", run)[0][0]
    expect(outcome == "timed_out", f"the attempt is recorded as '{outcome}', with {row['error_type']}")


@scenario(
    "a cancelled run is stopped within a heartbeat, and becomes cancelled",
    "a user who stops a wrong campaign watches it being sent",
)
def cancel(harness: Harness) -> None:
    run = harness.one("wait", {"seconds": 60})
    harness.start()
    harness.noted(run, "started")
    harness.do(b"select * from wakeboard.cancel(array[%s::bigint])", run)
    harness.noted(run, "stopped", within_s=LEASE_S + SLACK_S)
    harness.ended(run, "cancelled", within_s=SLACK_S)
    recorded = harness.rows(b"select outcome from wakeboard.job_attempts where run_id = %s", run)
    expect(recorded == [("cancelled",)], f"the attempt is recorded as {recorded}, and not as cancelled")


@scenario(
    "at most WAKEBOARD_CONCURRENCY handlers run at once",
    "a worker that starts whatever is due overloads itself and what it calls",
)
def concurrency(harness: Harness) -> None:
    harness.enqueue("wait", {"seconds": 3}, count=12)
    harness.start(concurrency=3)
    harness.wait("no handler was started", b"select count(*) from conformance.notes where what = 'started'")
    most = 0
    deadline = time.monotonic() + 5
    count = (
        b"select count(*) filter (where what = 'started') - count(*) filter (where what = 'finished')"
        b" from conformance.notes"
    )
    while time.monotonic() < deadline:
        most = max(most, harness.rows(count)[0][0])
        time.sleep(0.05)
    expect(most == 3, f"{most} handlers ran at once, with WAKEBOARD_CONCURRENCY=3")


@scenario(
    "a run that kills its workers becomes dead, and the others succeed",
    "one poisonous payload takes down worker after worker, and everything that runs beside it",
)
def poison(harness: Harness) -> None:
    crashing = harness.one("crash")
    deadline = time.monotonic() + 2 * harness.patience_s
    process = harness.start()
    beside: list[int] = []
    while harness.run(crashing)["status"] != "dead":
        if time.monotonic() > deadline:
            crashes = harness.run(crashing)["crash_count"]
            raise Violated(f"the run was not executed a third time, alone, after {counted(crashes, 'crash')}")
        if process.poll() is not None:  # what the kubelet does, and what the operator reports
            query = b"select locked_by from wakeboard.job_runs where id = %s and locked_by <> 0"
            for (worker,) in harness.rows(query, crashing):
                harness.do(b"select * from wakeboard.report_worker_terminated(%s, 'Error')", worker)
            if harness.run(crashing)["status"] == "dead":
                break
            if harness.run(crashing)["crash_count"] == 2:  # quarantined from now on
                beside += harness.enqueue("echo", {"n": 1}, count=5)
            process = harness.start()
        time.sleep(0.05)
    harness.start()
    beside += harness.enqueue("echo", {"n": 1}, count=5)
    harness.succeeded(*beside)
    crashed = harness.rows(b"select count(*) from wakeboard.job_run_history where crash_count > 0")[0][0]
    expect(not crashed, f"{counted(crashed, 'other run')} crashed with it: the quarantined run was not executed alone")
