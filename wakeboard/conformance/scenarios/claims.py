"""Which runs a worker claims: no due run waits behind others for long, whatever they are.

`fetch_runs` decides which; the worker must pass its state back and say how much room it has.
"""

from __future__ import annotations

import json
import math
import time
from typing import TYPE_CHECKING, Final

from wakeboard.conformance.harness import expect
from wakeboard.conformance.scenario import SLACK_S, Scenario, registration
from wakeboard.text.humanize import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from wakeboard.conformance.harness import Harness

HINDRANCE: Final = 60_000  # due runs of another job type: more than one fetch reads
BACKLOG: Final = 400
SHORT: Final = {"seconds": 0.1}
BACKLOG_S: Final = 60.0  # in which a busy machine executes half of the backlog
ALONE: Final = 10  # runs, each enqueued when the one before has ended
STATEMENTS_A_RUN: Final = 4  # fetch, report, and fetch again at its end, or in two transactions
STATEMENTS_A_SECOND: Final = 2  # of a worker that has nothing to do, and polls once a second
IDLE_S: Final = 3.0
SOON_S: Final = 2 + SLACK_S  # a worker may continue behind its last run for two seconds

CLAIMS: Final[list[Scenario]] = []
scenario = registration(CLAIMS)

# `nextval` counts the calls, because a rollback does not undo it.
REFUSE_REGISTRATIONS: Final = rb"""
do $$ begin
  execute regexp_replace(pg_get_functiondef('wakeboard.register_worker'::regproc), 'AS \$function\$.*',
    'as $f$ begin perform nextval(''wakeboard.refusals''); '
    || 'raise exception using errcode = ''55P03'', message = ''locked''; end $f$');
end $$
"""


@scenario(
    "a due run is found behind thousands of due runs of other job types",
    "one job type without a worker stops all others in its queue",
)
def foreign_types(harness: Harness) -> None:
    _insert(harness, "unknown", HINDRANCE, age_s=3600)
    run = harness.one("echo")
    harness.start()
    harness.succeeded(run)
    time.sleep(1)  # the worker is idle now
    harness.succeeded(harness.one("echo"), within_s=SOON_S)


@scenario(
    "runs with a limit key run, and never more of them at once than the limit",
    "an account at a provider is blocked, or limited runs never start",
)
def limits(harness: Harness) -> None:
    harness.do(b"select wakeboard.set_limit('conformance', 2)")
    runs = harness.enqueue("wait", {"seconds": 1}, limit_key="conformance", count=6)
    harness.start()
    harness.succeeded(*runs)


@scenario(
    "runs of another queue are executed during a backlog of the same priority in the first one",
    "one busy queue stops the others that the worker serves",
)
def queues_in_turn(harness: Harness) -> None:
    _insert(harness, "wait", BACKLOG, SHORT, age_s=3600)
    runs = _insert(harness, "echo", 10, queue="other", age_s=60)
    harness.start(concurrency=2, queues="default,other")
    _claimed(harness, 1)
    _succeed_before_backlog(harness, runs)


def _insert(
    harness: Harness,
    job_type: str,
    count: int = 1,
    payload: Mapping[str, object] | None = None,
    *,
    queue: str = "default",
    age_s: float,
) -> list[int]:
    """Insert runs that have been due for `age_s`. Returns their ids."""
    rows = harness.rows(
        b"insert into wakeboard.job_runs (job_type, payload, queue, run_at)"
        b" select %s, %s::jsonb, %s, now() - make_interval(secs => %s) from generate_series(1, %s) returning id",
        *(f"conformance.{job_type}", json.dumps(payload or {}), queue, age_s, count),
    )
    return [row[0] for row in rows]


def _succeed_before_backlog(harness: Harness, runs: list[int]) -> None:
    """Wait until the runs have succeeded. Raises Violated if half of the backlog is executed before, however slowly."""
    query = (
        b"select count(*) filter (where id = any (%s) and status = 'succeeded') = %s"
        b" or count(*) filter (where job_type = 'conformance.wait') >= %s from wakeboard.job_run_history"
    )
    harness.wait("the runs did not succeed", query, runs, len(runs), BACKLOG // 2, within_s=BACKLOG_S)
    done = b"select count(*) from wakeboard.job_run_history where id = any (%s) and status = 'succeeded'"
    expect(harness.rows(done, runs)[0][0] == len(runs), "the runs did not succeed before half of the backlog")


def _claimed(harness: Harness, count: int) -> None:
    """Wait until so many runs have been claimed."""
    harness.wait("the worker claims no runs", b"select count(*) >= %s from conformance.leases", count)


@scenario(
    "a worker that cannot register again goes on claiming",
    "one locked table, or a transaction that an administrator left open, stops all workers within a lease",
)
def refused_registration(harness: Harness) -> None:
    harness.start_and_wait()
    harness.succeeded(harness.one("echo", {"n": 1}))
    harness.do(b"create sequence wakeboard.refusals")
    harness.do(REFUSE_REGISTRATIONS)
    harness.wait(
        "the worker did not register again after a lease",
        b"select last_value >= 2 from wakeboard.refusals",
    )
    harness.succeeded(harness.one("echo", {"n": 2}))


@scenario(
    "a run that comes alone costs four statements at most, and an idle worker sends two a second",
    "workers that wait keep the database busy, all day",
)
def statements(harness: Harness) -> None:
    harness.start_and_wait(poll_seconds=1, lease_seconds=60)
    harness.succeeded(harness.one("echo"))
    time.sleep(1.5)  # what a worker does once, at its start, is over
    _expect_statements(harness, lambda: time.sleep(IDLE_S), 0)

    def alone() -> None:
        for number in range(ALONE):
            harness.succeeded(harness.one("echo", {"n": number}))

    _expect_statements(harness, alone, ALONE)


def _expect_statements(harness: Harness, act: Callable[[], None], runs: int) -> None:
    """Raises Violated if the worker sends more statements during `act` than that takes. Two may be late."""
    before, began = harness.proxy.statements.copy(), time.monotonic()
    act()
    seconds, sent = time.monotonic() - began, harness.proxy.statements - before
    allowed = 2 + STATEMENTS_A_RUN * runs + STATEMENTS_A_SECOND * math.ceil(seconds)
    found = ", ".join(f"{name} {count}" for name, count in sent.most_common())
    expect(
        sent.total() <= allowed,
        f"in {seconds:.1f} s it sent {sent.total()} statements for {counted(runs, 'run')}: {found}",
    )
