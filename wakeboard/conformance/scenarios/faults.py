"""Faults of the network and of the server, lost leases, and the end of the worker."""

from __future__ import annotations

import re
import signal
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from wakeboard.conformance.harness import GRACE_S, LEASE_S, Violated, expect
from wakeboard.conformance.scenario import SLACK_S, Scenario, registration
from wakeboard.conformance.tcp_proxy import Action, Intercept
from wakeboard.text.humanize import counted

if TYPE_CHECKING:
    import subprocess

    from wakeboard.conformance.harness import Harness

LEASED_AGAIN: Final = b"select run_id from conformance.leases group by run_id having count(*) > 1"

FAULTS: Final[list[Scenario]] = []
scenario = registration(FAULTS)


@scenario(
    "after a lease is lost, its handler is stopped, and only the outcome of the newer lease counts",
    "two workers execute one run, and the result of the wrong one is stored",
)
def lost_lease(harness: Harness) -> None:
    run = harness.one("wait", {"seconds": 5})
    harness.start()
    harness.noted(run, "started")
    (first,) = harness.leases(run)
    harness.do(
        b"update wakeboard.job_runs set locked_until = now() - interval '1 s', started_epoch = lease_epoch"
        b" where id = %s",
        run,
    )
    harness.do(b"select * from wakeboard.reap(always => true)")
    harness.noted(run, "stopped", epoch=first, within_s=LEASE_S + SLACK_S)
    harness.succeeded(run)
    row = harness.run(run)
    expect(row["lease_epoch"] > first, "the outcome of the lost lease was accepted")
    expect(
        row["result"] == {"epoch": row["lease_epoch"]},
        f"the stored result {row['result']!r} is not that of the lease with epoch {row['lease_epoch']}",
    )


@scenario(
    "an outcome that could not be sent before its lease expired is dropped, and the run is executed again",
    "the run may belong to another worker by then: a late completion hides that it was executed twice",
)
def outage(harness: Harness) -> None:
    harness.reaps = False
    run = harness.one("wait", {"seconds": 2})
    harness.start()
    harness.noted(run, "started")
    harness.proxy.block("")
    harness.wait("the lease did not expire", b"select locked_until < now() from wakeboard.job_runs where id = %s", run)
    time.sleep(1.0)
    harness.proxy.unblock("")
    with suppress(Violated):  # a worker may leave the run to the reaper
        ended = b"select status <> 'running' from wakeboard.all_runs where id = %s"
        harness.wait("", ended, run, within_s=3)
    harness.reaps = True
    harness.succeeded(run)
    expect(len(harness.leases(run)) > 1, "the outcome was sent and accepted after the lease had expired")


@scenario(
    "an outage of the network shorter than a lease costs no run its attempt",
    "every restart of a pooler or a switch makes long runs begin again",
)
def cut_connections(harness: Harness) -> None:
    runs = harness.enqueue("wait", {"seconds": LEASE_S + 1}, count=3)
    harness.start()
    for run in runs:
        harness.noted(run, "started")
    for _ in range(3):
        for connection in harness.proxy.connections(""):
            harness.proxy.cut(connection)
        time.sleep(0.4)
    late = harness.one("echo")
    harness.succeeded(*runs, late)
    expect(all(len(harness.leases(run)) == 1 for run in runs), "a run was executed again")


@scenario(
    "the reply to a claim that arrives after its lease has expired starts no handler",
    "a lease counts from when its request was sent, by a monotonic clock: counted from the reply, or by the wall clock,"
    " a worker executes runs that belong to another one",
)
def late_claim(harness: Harness) -> None:
    harness.reaps = False
    harness.start_and_wait()
    run = _claimed(harness, Action.HOLD_REPLY)
    harness.wait("the lease did not expire", b"select locked_until < now() from wakeboard.job_runs where id = %s", run)
    harness.reaps = True
    for connection in harness.proxy.connections(""):
        harness.proxy.release(connection)
    harness.succeeded(run)
    first = harness.notes(run)[0]
    expect(
        first.epoch != harness.leases(run)[0],
        "the handler was started although its lease had expired before the reply arrived",
    )


@scenario(
    "runs whose claim got no reply are executed, without counting as crashes",
    "after three lost replies a healthy run would be dead. The heartbeat must go on without runs in flight: it proves"
    " that the worker lives and does not know these leases",
)
def lost_claim(harness: Harness) -> None:
    harness.start_and_wait()
    run = _claimed(harness, Action.DROP_REPLY)
    harness.succeeded(run)
    crashes = harness.run(run)["crash_count"]
    expect(crashes == 0, f"the lost claim counts as {counted(crashes, 'crash')}")


@scenario(
    "a claim that gets no reply stops neither other runs nor its own",
    "a worker that waits for the reply without a limit renews its heartbeat and claims nothing for ever",
)
def stalled_claim(harness: Harness) -> None:
    harness.start_and_wait()
    run = _claimed(harness, Action.HOLD_REPLY)
    harness.succeeded(run, harness.one("echo", {"n": 1}))


def _claimed(harness: Harness, action: Action) -> int:
    """Enqueue a run and apply the action to the reply with which it is claimed. Returns its id."""
    marker = "the payload of the intercepted claim"
    harness.proxy.add(Intercept("", b"", action, reply=marker.encode()))
    run = harness.one("wait", {"seconds": 0.5, "marker": marker})
    harness.wait("the run was not claimed", b"select lease_epoch > 0 from wakeboard.job_runs where id = %s", run)
    return run


@scenario(
    "a completion whose reply is lost is sent again, and counts once",
    "the outcome is lost and the run executed twice, or a worker reports more successes than there were",
)
def lost_reply(harness: Harness) -> None:
    intercept = Intercept("", b"wakeboard.complete", Action.DROP_REPLY)
    process = harness.start_and_wait()
    harness.proxy.add(intercept)
    runs = harness.enqueue("echo", {"n": 1}, count=10)
    harness.succeeded(*runs)
    more = harness.enqueue("echo", {"n": 1}, count=5)
    harness.succeeded(*more)
    expect(intercept.matched.is_set(), "the worker does not call wakeboard.complete")
    _expect_counted(harness, process, 15)


@scenario(
    "a completion that gets no reply is sent again over another connection, and counts once",
    "a connection that stays open without an answer stops all outcomes. A heartbeat meanwhile calls the lease lost: a"
    " worker that believes it logs successful runs as lost leases, and reports fewer successes than there were",
)
def stalled_completion(harness: Harness) -> None:
    process = harness.start_and_wait()
    harness.proxy.add(Intercept("", b"wakeboard.complete", Action.HOLD_REPLY))
    runs = harness.enqueue("echo", {"n": 1}, count=10)
    harness.succeeded(*runs)
    more = harness.enqueue("echo", {"n": 1}, count=5)
    harness.succeeded(*more)
    _expect_counted(harness, process, 15)


def _expect_counted(harness: Harness, process: subprocess.Popen[bytes], runs: int) -> None:
    """Stop the worker. Each run had one attempt, and the worker reports as many successes, if it reports any number."""
    process.send_signal(signal.SIGTERM)
    harness.exit_code(process, GRACE_S + SLACK_S)
    expect(not harness.rows(LEASED_AGAIN), "a run that had succeeded was executed again")
    successes = re.findall(r"(\d+) succeeded", harness.output())
    wrong = f"the worker reports {successes[-1:]} successes; it executed {counted(runs, 'run')}"
    expect(not successes or successes[-1] == str(runs), wrong)


@scenario(
    "a completion that never arrived is sent again",
    "the run is executed a second time although its handler succeeded",
)
def lost_request(harness: Harness) -> None:
    intercept = Intercept("", b"wakeboard.complete", Action.DROP_REQUEST)
    harness.proxy.add(intercept)
    runs = harness.enqueue("echo", {"n": 1}, count=10)
    harness.start()
    harness.succeeded(*runs)
    expect(not harness.rows(LEASED_AGAIN), "a run was executed again")


@scenario(
    "SIGTERM: no new claims, short runs finish, long ones are released within the grace period, exit code 0",
    "each deployment makes runs wait for their leases to expire and counts them as crashed; the third makes them dead",
)
def sigterm(harness: Harness) -> None:
    short, long = harness.one("wait", {"seconds": 1}), harness.one("wait", {"seconds": 60})
    grace_s = 3 * GRACE_S  # so that the short run ends in it on a busy machine, too
    process = harness.start(grace_seconds=grace_s)
    harness.noted(short, "started")
    harness.noted(long, "started")
    process.send_signal(signal.SIGTERM)
    time.sleep(0.3)
    late = harness.one("echo")
    code = harness.exit_code(process, grace_s + LEASE_S + SLACK_S)
    expect(code == 0, f"the exit code is {code} in place of 0")
    rows = {name: harness.run(run) for name, run in (("short", short), ("long", long), ("late", late))}
    expect(rows["late"]["status"] == "queued", "a run that was enqueued after SIGTERM was claimed")
    expect(rows["short"]["status"] == "succeeded", "a run that would have ended in the grace period was not finished")
    expect(rows["long"]["status"] == "queued", "a run that was executing was not released: its lease has to expire")
    expect(
        (rows["long"]["attempts"], rows["long"]["release_count"]) == (0, 1),
        f"the release counts as {counted(rows['long']['attempts'], 'attempt')} and"
        f" {counted(rows['long']['release_count'], 'release')};"
        " release it with the reason 'worker_stopped'",
    )
    expect(harness.notes(long)[-1].what == "stopped", "the handler was not asked to stop")
    registered = harness.rows(b"select count(*) from wakeboard.workers")[0][0]
    expect(not registered, "the worker did not deregister")
