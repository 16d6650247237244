"""What handlers log: it is stored with its attempt, masked and bounded, and it delays no handler."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from wakeboard.conformance.harness import expect
from wakeboard.conformance.scenario import SLACK_S, Scenario, registration
from wakeboard.logs.rules import LEVELS, OUTCOME, Line, unpacked
from wakeboard.text.humanize import counted

if TYPE_CHECKING:
    from wakeboard.conformance.harness import Harness

LOGS: Final[list[Scenario]] = []
scenario = registration(LOGS)

BOUND: Final = 16_384  # characters of an attempt
MANY: Final = 5_000
PER_S: Final = 500  # lines that a busy machine logs, also on standard error
LONGEST: Final = 8_000
CREDENTIAL: Final = "connect to postgresql://app:s3cr3t-Pa55@db/shop"
PASSPHRASE: Final = "correct horse"  # noqa: S105 - of a payload
HOSTILE: Final = "bell \a escape \x1b[2J html <script> forged\n12:00:00 error forged " + "x" * 20_000
STORE_NOTHING: Final = rb"""
do $$ begin
  execute regexp_replace(pg_get_functiondef('wakeboard.store_logs'::regproc), 'AS \$function\$.*',
    'as $f$ begin perform pg_sleep(300); return 0; end $f$');
end $$
"""


def lines_of(harness: Harness, run_id: int) -> list[Line]:
    """The stored lines of the run's last attempt, in their order."""
    rows = harness.rows(
        b"select log.lease_epoch, log.attempt, extract(epoch from first_at)::float8, lines"
        b" from wakeboard.job_run_logs as log join wakeboard.all_runs as run on run.uuid = log.run_uuid"
        b" where run.id = %s and log.lease_epoch = run.lease_epoch and log.attempt = run.attempts order by sequence",
        run_id,
    )
    return [line for _, _, at, lines in rows for line in unpacked(lines, at)]


def logged(harness: Harness, run_id: int, number: int) -> None:
    """Wait until the line with this number is stored."""
    query = (
        b"select true from wakeboard.job_run_logs where last_line = %s"
        b" and run_uuid = (select uuid from wakeboard.all_runs where id = %s)"
    )
    harness.wait(f"line {number} of run {run_id} was not stored", query, number, run_id)


@scenario(
    "what a handler logs is stored with its attempt, masked, with its level, and so is how the attempt failed",
    "the pod is gone when a user asks why its run failed",
)
def logs(harness: Harness) -> None:
    run = harness.one("log", {"lines": 3, "text": CREDENTIAL, "fails": True}, max_attempts=1)
    hostile = harness.one("log", {"lines": 0, "text": HOSTILE})
    secret = harness.one(
        "log", {"lines": 0, "text": f"logged in with {PASSPHRASE}", "login": {"userPassword": PASSPHRASE}}
    )
    silent = harness.one("echo")
    harness.start()
    logged(harness, run, 5)
    logged(harness, hostile, 1)
    logged(harness, secret, 1)
    harness.succeeded(silent)
    found = [(line.number, line.level, line.text) for line in lines_of(harness, run)]
    masked = CREDENTIAL.replace("s3cr3t-Pa55", "***")
    wanted = [(number, LEVELS["info"], f"line {number}") for number in (1, 2, 3)] + [(4, LEVELS["error"], masked)]
    expect(found[:4] == wanted, f"the lines are stored as {found!r} in place of {wanted!r}")
    last = lines_of(harness, run)[-1]
    expect(
        last.source == OUTCOME and last.level == LEVELS["error"] and "no such customer" in last.text,
        f"how the attempt failed is stored as {last!r} in place of a line of the source {OUTCOME!r}",
    )
    (line,) = lines_of(harness, hostile)
    expect(
        line.text.startswith(HOSTILE[:50]) and len(line.text) <= LONGEST,
        f"a line with a length of {len(HOSTILE)} is stored with one of {len(line.text)}, as {line.text[:60]!r}…",
    )
    (line,) = lines_of(harness, secret)
    expect(
        line.text.startswith("logged in with ") and PASSPHRASE not in line.text,
        f"a value of the payload under the key userPassword is stored in a log, as {line.text!r}",
    )
    rows = b"select count(*) from wakeboard.job_run_logs where run_uuid = %s"
    expect(not harness.rows(rows, harness.run(silent)["uuid"])[0][0], "a run that logs nothing has a log")


@scenario(
    "of a long log the first and the last lines are kept, and a database that takes none delays no handler",
    "a handler that logs in a loop fills the database, or waits for it",
)
def long_logs(harness: Harness) -> None:
    warm = harness.one("log", {"lines": 0, "text": "warm"})
    harness.start(run_log_max_bytes=BOUND)
    logged(harness, warm, 1)
    long = harness.one("log", {"lines": MANY, "text": "the end"})
    logged(harness, long, MANY + 1)
    lines = lines_of(harness, long)
    numbers = [line.number for line in lines]
    expect(numbers[0] == 1 and numbers == sorted(set(numbers)), f"the first lines are {numbers[:3]!r}")
    expect(lines[-1].text == "the end", f"the last line is {lines[-1]!r}")
    size = sum(len(line.text) + 1 for line in lines)
    expect(
        BOUND * 3 // 8 <= size <= 2 * BOUND,
        f"{counted(size, 'character')} of an attempt are kept, with a bound of {BOUND}",
    )
    harness.do(STORE_NOTHING)
    harness.succeeded(harness.one("log", {"lines": MANY, "text": "the end"}), within_s=SLACK_S + MANY / PER_S)
