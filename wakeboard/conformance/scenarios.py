"""What a worker must do: one scenario for each promise, the same for workers in every language.

A scenario enqueues runs, starts the worker, injects a fault, and raises Violated if the worker broke the promise.
`why` says what goes wrong in production with a worker that does not keep it.
"""

from __future__ import annotations

import re
import signal
import subprocess
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final
from uuid import UUID, uuid5

from wakeboard.conformance.claim_scenarios import CLAIMS
from wakeboard.conformance.credential_texts import LEFT_ALONE, MASKED
from wakeboard.conformance.harness import GRACE_S, LEASE_S, Violated, expect
from wakeboard.conformance.scenario import SLACK_S, Scenario, registration
from wakeboard.conformance.tcp_proxy import Action, Intercept
from wakeboard.text.humanize import counted, times

if TYPE_CHECKING:
    from wakeboard.conformance.harness import Harness

MANY: Final = 10_000
LEASED_AGAIN: Final = b"select run_id from conformance.leases group by run_id having count(*) > 1"

SCENARIOS: Final[list[Scenario]] = [*CLAIMS]
scenario = registration(SCENARIOS)


# -- outcomes ----------------------------------------------------------------------------------------------------------


@scenario(
    "the payload reaches the handler unchanged, and its result is stored",
    "a payload or a result that changes on the way is lost data",
)
def result(harness: Harness) -> None:
    payload: dict[str, object] = {
        "text": "Łódź 🚀 \" ' \\ {}",
        "number": 9007199254740991,
        "none": None,
        "list": [1.5, True, {"a": []}],
    }
    run = harness.one("echo", payload)
    harness.start()
    harness.succeeded(run)
    stored = harness.run(run)["result"]
    expect(stored == payload, f"the result is {stored!r}, and the payload was {payload!r}")
    known = harness.rows(b"select count(*) from wakeboard.worker_types where job_type = 'conformance.echo'")[0][0]
    expect(known, "the worker did not register its job types")


@scenario(
    "10,000 runs succeed, each in its first attempt",
    "a worker that reports runs one by one, or claims what it cannot start in time, falls behind a backlog",
)
def backlog(harness: Harness) -> None:
    runs = harness.enqueue("echo", {"n": 1}, count=MANY)
    harness.start()
    harness.succeeded(*runs, within_s=60)
    again = harness.rows(b"select count(*) from wakeboard.job_run_history where attempts <> 1 or crash_count > 0")[0][0]
    expect(not again, f"{counted(again, 'run')} needed more than one attempt")


@scenario(
    "a failed attempt is stored with its error, and the next one is accepted under its own epoch",
    "with another epoch than that of its claim, a second attempt can never be completed, and the run crashes",
)
def retry(harness: Harness) -> None:
    run = harness.one("fail", {"how": "error", "times": 2})
    harness.start()
    harness.succeeded(run)
    row = harness.run(run)
    expect(row["result"] == {"attempt": 3}, f"the third attempt returned {row['result']!r}")
    expect(row["crash_count"] == 0, "an attempt was counted as a crash: its outcome was not accepted")
    found = harness.rows(
        b"select outcome, error from wakeboard.job_attempts where run_id = %s order by lease_epoch", run
    )
    expect(
        [outcome for outcome, _ in found] == ["failed"] * 2 and all("no such customer" in text for _, text in found),
        f"the failed attempts are stored as {found!r}",
    )


@scenario(
    "what looks like a credential is masked in the stored error and its stack, and other errors stay as they are",
    "who may read errors (on the board, in a status, in an alert) reads the passwords that drivers put into them",
)
def masked_errors(harness: Harness) -> None:
    long = "connect to https://user:" + "aB3x" * 2_500 + "@host"
    cases = [*MASKED, *((text, text) for text in LEFT_ALONE)]
    texts = [long, *(text for text, _ in cases)]
    first, *runs = [
        harness.one("fail", {"how": "error", "times": 9, "message": text}, max_attempts=1) for text in texts
    ]
    harness.start()
    ended = b"select count(*) = 0 from wakeboard.job_runs where status <> 'dead' and id = any (%s)"
    harness.wait("some failing runs are not dead", ended, [first, *runs])
    stored = {run: texts for run, *texts in harness.rows(b"select run_id, error, stack from wakeboard.job_attempts")}
    torn = "aB3x" in "".join(filter(None, stored[first]))
    expect(not torn, "a part of a password of 10,000 characters is stored; mask the word that a cut tears")
    for run, (text, masked) in zip(runs, cases, strict=True):
        error, stack = stored[run]
        expect(error.strip() == masked.strip(), f"the error {text!r} is stored as {error!r} in place of {masked!r}")
        expect(text == masked or text not in (stack or ""), f"the stack that is stored quotes {text!r}")


@scenario(
    "a run whose attempts are used up, or that its handler gives up, is dead",
    "a run that is retried for ever costs money, and no one learns of it",
)
def dead(harness: Harness) -> None:
    failing = harness.one("fail", {"how": "error", "times": 9}, max_attempts=2)
    discarded = harness.one("fail", {"how": "discard", "times": 9})
    harness.start()
    row = harness.ended(failing, "dead")
    expect(row["attempts"] == 2, f"the run is dead after {counted(row['attempts'], 'attempt')} in place of 2")
    row = harness.ended(discarded, "dead")
    expect(row["attempts"] == 1, f"the discarded run is dead after {counted(row['attempts'], 'attempt')} in place of 1")


@scenario(
    "a handler chooses when its run is tried again, and a snooze costs no attempt",
    "a provider that says 'retry after 60 s' is called too early, or a run that waits for its turn dies",
)
def delays(harness: Harness) -> None:
    retried = harness.one("fail", {"how": "retry", "times": 1, "seconds": 600})
    snoozed = harness.one("fail", {"how": "snooze", "times": 1, "seconds": 600})
    harness.start()
    query = b"select run_at > now() + interval '500 s' and locked_by = 0 from wakeboard.job_runs where id = %s"
    harness.wait("the run was not delayed by the 600 s that its handler asked for", query, retried)
    harness.wait("the run was not snoozed by the 600 s that its handler asked for", query, snoozed)
    attempts = harness.run(retried)["attempts"], harness.run(snoozed)["attempts"]
    expect(attempts == (1, 0), f"the attempts are {attempts[0]} and {attempts[1]}; a snooze does not count as one")


@scenario(
    "a lock that one outcome needs delays no other outcome, and the worker can still end",
    "one session that was left open in psql stops all outcomes of a worker, which SIGTERM does not end",
)
def locked_outcome(harness: Harness) -> None:
    lease_s = 10
    one = b"create or replace function wakeboard.lease_step() returns bigint language sql as 'select 1::bigint'"
    harness.do(one)  # so that the epoch is known before the claim
    locked, *others = harness.enqueue("fail", {"how": "error", "times": 9}, max_attempts=1, count=4)
    succeeding = harness.one("echo", {"n": 1})
    harness.do(b"begin")
    harness.do(
        b"insert into wakeboard.job_attempts (run_id, lease_epoch, attempt, outcome, locked_by, started_at)"
        b" values (%s, 1, 1, 'failed', 1, now())",
        locked,
    )
    process = harness.start(lease_seconds=lease_s)
    harness.succeeded(succeeding)
    for run in others:
        harness.ended(run, "dead")
    process.send_signal(signal.SIGTERM)
    _exit_code(process, GRACE_S + lease_s + SLACK_S)
    harness.do(b"rollback")


# -- under a lease -----------------------------------------------------------------------------------------------------


@scenario(
    "a step that was completed is not executed again; its stored result is returned",
    "a retry repeats the expensive first half of the work, and gets another result than before",
)
def steps(harness: Harness) -> None:
    run = harness.one("steps")
    harness.start()
    harness.succeeded(run)
    notes = [note.what for note in harness.notes(run)]
    expect(notes.count("draw") == 1, f"the step was executed {times(notes.count('draw'))}")
    expect(notes[1] == notes[-1], f"the step returned '{notes[1]}' and then '{notes[-1]}'")


@scenario(
    "an effect is new once, then in doubt, then done, with one key for the provider",
    "a mail is sent twice, or not at all, when a worker dies beside it",
)
def effects(harness: Harness) -> None:
    run = harness.one("effect")
    harness.start()
    harness.succeeded(run)
    key = uuid5(UUID(harness.run(run)["uuid"]), "mail")
    notes = [note.what for note in harness.notes(run)]
    wanted = [f"{state} {key}" for state in ("new", "in doubt", "done")]
    expect(notes == wanted, f"the handlers noted {notes!r}; expected {wanted!r}")


@scenario(
    "an effect in the handler's own transaction happens once",
    "a payment is booked twice when the attempt fails after its commit",
)
def once(harness: Harness) -> None:
    run = harness.one("once")
    harness.start()
    harness.succeeded(run)
    paid = len(harness.notes(run))
    expect(paid == 1, f"the effect happened {times(paid)}")
    expect(harness.run(run)["result"] == {"mine": False}, "the second attempt got the answer that it has to pay")


@scenario(
    "progress reaches the database while the handler runs",
    "users cannot distinguish a long run from one that hangs",
)
def progress(harness: Harness) -> None:
    run = harness.one("wait", {"seconds": 20})
    harness.start()
    harness.wait(
        "the progress of 0.5 did not arrive", b"select progress = 0.5 from wakeboard.job_runs where id = %s", run
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


# -- crashes -----------------------------------------------------------------------------------------------------------


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


# -- faults ------------------------------------------------------------------------------------------------------------


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
    _exit_code(process, GRACE_S + SLACK_S)
    expect(not harness.rows(LEASED_AGAIN), "a run that had succeeded was executed again")
    successes = re.findall(r"(\d+) succeeded", harness.output())
    wrong = f"the worker reports {successes[-1:]} successes; it executed {counted(runs, 'run')}"
    expect(not successes or successes[-1] == str(runs), wrong)


@scenario(
    "after the server has lost its last commits, nothing of a lost attempt counts for another run",
    "a standby that lacks the last seconds gives the ids of lost runs again: another run counts as succeeded, or"
    " skips an effect that nobody has had",
)
def forgetful_server(harness: Harness) -> None:
    harness.start_and_wait()
    harness.proxy.add(Intercept("", b"wakeboard.complete", Action.HOLD_REPLY))  # it is sent again after half of a lease
    lost = [harness.one("wait", {"seconds": 1})]
    lost += [harness.one(job_type, {"seconds": 3}) for job_type in ("wait", "steps", "effect")]
    harness.wait("the runs were not claimed", b"select count(*) = 4 from conformance.leases")
    harness.succeeded(lost[0])
    lost_epochs = {run: harness.leases(run)[0] for run in lost}
    harness.do(b"begin")
    harness.do(b"truncate wakeboard.job_runs, wakeboard.job_run_history, wakeboard.job_steps, wakeboard.job_effects")
    harness.do(b"select setval('wakeboard.job_runs_id_seq', %s, false)", lost[0])
    given = [harness.one("wait", {"seconds": 4}) for _ in range(2)]
    given += [harness.one(job_type, {"seconds": 2}) for job_type in ("steps", "effect")]
    harness.do(b"commit")
    expect(given == lost, f"the server gave {given} in place of the ids {lost}")
    harness.succeeded(*given)
    rows = [harness.run(run) for run in given]
    for row in rows:
        epoch = row["lease_epoch"]
        expect(epoch != lost_epochs[row["id"]], "the outcome of a lost attempt was accepted for another run")
        expect(row["crash_count"] == 0, "a run counts a crash, though no worker crashed")
        if row["job_type"] == "conformance.wait":
            expect(
                row["result"] == {"epoch": epoch}, f"the run with the epoch {epoch} has the result {row['result']!r}"
            )
    drawn = [note.what for note in harness.notes(given[2]) if note.epoch != lost_epochs[given[2]]]
    expect(drawn.count("draw") == 1, f"the step was executed {times(drawn.count('draw'))} for its own run")
    expect(rows[2]["result"] == {"drawn": float(drawn[1].split()[1])}, "the run got the step of a lost one")
    key = uuid5(UUID(rows[3]["uuid"]), "mail")
    noted = [note.what for note in harness.notes(given[3]) if note.epoch != lost_epochs[given[3]]]
    wanted = [f"{state} {key}" for state in ("new", "in doubt", "done")]
    expect(noted == wanted, f"the handlers of the effect noted {noted!r}; expected {wanted!r}")


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
    code = _exit_code(process, grace_s + LEASE_S + SLACK_S)
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


def _exit_code(process: subprocess.Popen[bytes], within_s: float) -> int:
    try:
        return process.wait(within_s)
    except subprocess.TimeoutExpired:
        raise Violated(f"the worker had not ended {within_s:.0f} s after SIGTERM") from None
