"""The outcome of an attempt: what the handler says is stored, and nothing delays it."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, Final

from wakeboard.conformance.credential_texts import LEFT_ALONE, MASKED
from wakeboard.conformance.harness import GRACE_S, expect
from wakeboard.conformance.scenario import SLACK_S, Scenario, registration
from wakeboard.text.humanize import counted

if TYPE_CHECKING:
    from wakeboard.conformance.harness import Harness

MANY: Final = 3_000

OUTCOMES: Final[list[Scenario]] = []
scenario = registration(OUTCOMES)


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
    "3,000 runs succeed, each in its first attempt",
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
    harness.exit_code(process, GRACE_S + lease_s + SLACK_S)
    harness.do(b"rollback")
