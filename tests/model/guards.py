"""The guards of the lease model: what becomes possible without each, and the line of the product that it stands for.

docs/model.md has them as a table; tests hold the model, these rows, that page and the product's lines together.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from tests.model.lease_state import FAILOVER, FENCE, LIMIT, TRUST, World

TWICE: Final = "two completions of one run were accepted"
EFFECT_TWICE: Final = "an effect happened twice"
LATE_EFFECT: Final = "an attempt that was over has had its effect"
LIMIT_BROKEN: Final = "a limit was exceeded"
LOST: Final = "a run is lost"
STUCK: Final = "a run can never be claimed again"
NOT_COUNTED: Final = "an attempt ended and was not counted"
POISON: Final = "a run goes on crashing"
OLD_ENDS_NEW: Final = "an attempt that was over has ended another one"
UNTRUE: Final = "an outcome was answered as accepted, and was not"
UNTRUE_NO: Final = "a completion that counts was answered as refused"
ROBBED: Final = "a lease that holds was taken away"
CLAIM_WAITS: Final = "a claim waits for a handler's transaction"
REAP_WAITS: Final = "reap waits for a handler's transaction"
BOTH_WORK: Final = "two workers work on one run"
NOTHING: Final = ""

STORE: Final = "wakeboard/store/functions/"
WORKER: Final = "worker/wakeboard_worker/"


class Guard(NamedTuple):
    """`without`: what becomes possible in `world` when it is taken away. `line` stands in `file` of the product."""

    name: str
    world: World
    without: str
    file: str
    line: str


GUARDS: Final = (
    Guard("claim takes free runs only", FENCE, NOT_COUNTED, STORE + "claim.sql", "locked_by = 0 and job_type"),
    Guard("claim looks again under the row's lock", FENCE, NOT_COUNTED, STORE + "claim.sql", "for update skip locked"),
    Guard("claim skips locked rows", FENCE, CLAIM_WAITS, STORE + "claim.sql", "for update of free skip locked"),
    Guard("claim's epoch", FENCE, OLD_ENDS_NEW, STORE + "claim.sql", "lease_epoch = lease_epoch + 1"),
    Guard("complete checks the epoch", FENCE, TWICE, STORE + "complete.sql", "and lease_epoch = epoch"),
    Guard("complete checks the worker", FAILOVER, TWICE, STORE + "complete.sql", "and locked_by = worker"),
    Guard("complete is one statement", FENCE, LOST, STORE + "complete.sql", "with done as ("),
    Guard("complete knows its repeats", FENCE, UNTRUE_NO, STORE + "complete.sql", "past.lease_epoch = epoch"),
    Guard("give checks the epoch", FENCE, OLD_ENDS_NEW, STORE + "release.sql", "run.lease_epoch = report.epoch"),
    Guard("give checks the worker", FAILOVER, OLD_ENDS_NEW, STORE + "fail.sql", "run.locked_by = fail.worker"),
    Guard("once checks the lease", FENCE, LATE_EFFECT, STORE + "once.sql", "run.lease_epoch = once.epoch"),
    Guard("once locks the run", FENCE, LATE_EFFECT, STORE + "once.sql", "for key share"),
    Guard(
        "an effect's key is unique",
        FENCE,
        EFFECT_TWICE,
        "wakeboard/store/migrations/0005_attempts_and_effects.sql",
        "an_effect_happens_once_per_run primary key (run_uuid, key)",
    ),
    Guard(
        "lapsed leases are taken back", FENCE, STUCK, STORE + "reap.sql", "set locked_by = 0, locked_until = 'epoch'"
    ),
    Guard("reap takes lapsed leases only", TRUST, ROBBED, STORE + "reap.sql", "locked_until < statement_timestamp()"),
    Guard(
        "reap looks again under the row's lock",
        FENCE,
        ROBBED,
        STORE + "reap.sql",
        "run.locked_until = judged.locked_until",
    ),
    Guard("reap skips locked rows", FENCE, REAP_WAITS, STORE + "reap.sql", "for update of run skip locked"),
    Guard("reap's epoch", FENCE, UNTRUE, STORE + "reap.sql", "lease_epoch = run.lease_epoch + 1"),
    Guard("the last crash makes a run dead", FENCE, POISON, STORE + "reap.sql", "crash_count >= 2 then 'crashed dead'"),
    Guard("slots are counted", LIMIT, LIMIT_BROKEN, STORE + "claim_limited.sql", "limit greatest(0, bound.max_running"),
    Guard(
        "slots are counted after the lock", LIMIT, LIMIT_BROKEN, STORE + "claim_limited.sql", "locked_keys := array("
    ),
    Guard(
        "the limit's row is locked", LIMIT, LIMIT_BROKEN, STORE + "claim_limited.sql", "by key for update skip locked"
    ),
    Guard("a lapsed lease keeps its slot", LIMIT, LIMIT_BROKEN, STORE + "claim_limited.sql", "and held.holds_slot"),
    Guard("a worker stops by itself", TRUST, BOTH_WORK, WORKER + "heartbeat.py", "self._in_flight.drop_all_leases"),
    Guard("trust counts from sending", TRUST, BOTH_WORK, WORKER + "heartbeat.py", "= sent + self._worker.lease_s"),
    Guard(
        "a late claim is not believed",
        TRUST,
        BOTH_WORK,
        WORKER + "fetcher.py",
        "boottime() - sent <= self._max_reply_s",
    ),
    Guard(
        "a claim needs trust when it is read",
        TRUST,
        BOTH_WORK,
        WORKER + "fetcher.py",
        "self._heartbeat.leases_valid() and boottime() - sent",
    ),
    # These two keep the board honest to zombies sooner; nothing wrong can be reached without them.
    Guard("renew checks the lease", TRUST, NOTHING, STORE + "renew.sql", "run.lease_epoch = held.epoch"),
    Guard("renew takes no lapsed lease", TRUST, NOTHING, STORE + "renew.sql", "locked_until > statement_timestamp()"),
)
