"""A server that has lost its last commits, as after a failover: it gives ids of lost runs again, or keeps leases."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final
from uuid import UUID, uuid5

from wakeboard.conformance.harness import LEASE_S, expect
from wakeboard.conformance.scenario import SLACK_S, Scenario, registration
from wakeboard.conformance.tcp_proxy import Action, Intercept
from wakeboard.text.humanize import times

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wakeboard.conformance.harness import Harness

# The database takes itself for that of another server, as one does into which a dump was loaded.
RESTORE: Final = (
    b"update wakeboard.installation set server_system = server_system - 1, server_started_at = statement_timestamp()"
)
FAILOVER: Final[list[Scenario]] = []
scenario = registration(FAILOVER)


@scenario(
    "after the server has lost its last commits, nothing of a lost attempt counts for another run",
    "a standby that lacks the last seconds gives the ids of lost runs again: another run counts as succeeded, or"
    " skips an effect that it never had",
)
def forgetful_server(harness: Harness) -> None:
    harness.start_and_wait()
    steps, effect = harness.one("steps"), harness.one("effect")
    harness.succeeded(steps, effect)
    waits = harness.one("wait", {"seconds": 60})
    harness.noted(waits, "started")
    until = b"select locked_until from wakeboard.job_runs where id = %s"
    renewed = b"select locked_until > %s from wakeboard.job_runs where id = %s"
    harness.wait(
        "the lease was not renewed", renewed, harness.rows(until, waits)[0][0], waits
    )  # no heartbeat is due soon
    lost = _forget(harness, {steps: ("steps", {}), effect: ("effect", {}), waits: ("wait", {"seconds": 1})})
    harness.succeeded(steps, effect, waits)
    harness.noted(waits, "stopped", epoch=lost[waits][0], within_s=LEASE_S + SLACK_S)
    _expect_own_attempt(harness, waits, lost[waits])
    drawn = _own_notes(harness, steps, lost[steps])
    expect(drawn.count("draw") == 1, f"the step was executed {times(drawn.count('draw'))} for its own run")
    result = _expect_own_lease(harness, steps, lost[steps])["result"]
    expect(result == {"drawn": float(drawn[1].split()[1])}, "the run got the step of a lost one")
    key = uuid5(UUID(_expect_own_lease(harness, effect, lost[effect])["uuid"]), "mail")
    noted, wanted = _own_notes(harness, effect, lost[effect]), [f"{at} {key}" for at in ("new", "in doubt", "done")]
    expect(noted == wanted, f"the handlers of the effect noted {noted!r}; expected {wanted!r}")


@scenario(
    "a completion that is sent again after the server has lost its last commits does not count for another run",
    "the outcome of a run that is lost is stored for a run that no worker has executed",
)
def forgotten_completion(harness: Harness) -> None:
    harness.start_and_wait()
    harness.proxy.add(Intercept("", b"wakeboard.complete", Action.HOLD_REPLY))  # it is sent again after half of a lease
    run = harness.one("wait", {"seconds": 0.5})
    harness.succeeded(run)
    lost = _forget(harness, {run: ("wait", {"seconds": LEASE_S / 2 + 2})})
    harness.succeeded(run)
    _expect_own_attempt(harness, run, lost[run])


@scenario(
    "after a restore, no outcome of a lease from before it is reported, and the run is executed again",
    "what a handler committed before the restore is lost, and its run counts as succeeded, or its worker as crashed",
)
def restored_server(harness: Harness) -> None:
    harness.start_and_wait()
    ends, goes_on = harness.one("wait", {"seconds": 1}), harness.one("wait", {"seconds": LEASE_S + 2})
    for run in (ends, goes_on):
        harness.noted(run, "started")
    lost = {run: harness.leases(run) for run in (ends, goes_on)}
    harness.do(RESTORE)
    harness.noted(goes_on, "stopped", epoch=lost[goes_on][0], within_s=LEASE_S / 4 + SLACK_S)
    harness.succeeded(ends, goes_on)
    for run in (ends, goes_on):
        _expect_own_attempt(harness, run, lost[run])


def _forget(harness: Harness, given: Mapping[int, tuple[str, Mapping[str, Any]]]) -> dict[int, list[int]]:
    """Lose all runs, and enqueue others that get the ids of `given`. Returns the epochs of the lost leases."""
    lost = {run: harness.leases(run) for run in given}
    harness.do(b"begin")
    harness.do(b"truncate wakeboard.job_runs, wakeboard.job_run_history, wakeboard.job_steps, wakeboard.job_effects")
    harness.do(b"select setval('wakeboard.job_runs_id_seq', %s, false)", min(given))
    made = [harness.one(job_type, payload) for job_type, payload in given.values()]
    harness.do(b"commit")
    expect(made == list(given), f"the server gave {made} in place of the ids {list(given)}")
    return lost


def _own_notes(harness: Harness, run: int, lost: list[int]) -> list[str]:
    return [note.what for note in harness.notes(run) if note.epoch not in lost]


def _expect_own_lease(harness: Harness, run: int, lost: list[int]) -> dict[str, Any]:
    row = harness.run(run)
    expect(row["lease_epoch"] not in lost, "the outcome of a lost attempt was accepted for another run")
    expect(row["crash_count"] == 0, "a run counts a crash, though no worker crashed")
    return row


def _expect_own_attempt(harness: Harness, run: int, lost: list[int]) -> None:
    """The only attempt of a `wait` began and ended under the lease of its own run, and has its result."""
    row = _expect_own_lease(harness, run, lost)
    wanted = {"epoch": row["lease_epoch"]}
    expect(row["result"] == wanted, f"the run has the result {row['result']!r} in place of {wanted!r}")
    noted = _own_notes(harness, run, lost)
    expect(noted == ["started", "finished"], f"under its own lease, the handler noted {noted!r}")
