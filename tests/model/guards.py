"""The guards of the lease model: what goes wrong without each, and the line of the product that is the guard.

docs/model.md shows them as a table. The tests keep the model, these rows, that page and the product's lines consistent.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from tests.model.lease_state import FAILOVER, FENCE, LIMIT, VALIDITY, World

TWICE: Final = "two completions of one run were accepted"
EFFECT_TWICE: Final = "an effect happened twice"
LATE_EFFECT: Final = "an attempt that had ended had its effect"
LIMIT_BROKEN: Final = "a limit was exceeded"
LOST: Final = "a run is lost"
STUCK: Final = "a run can never be claimed again"
NOT_COUNTED: Final = "an attempt ended and was not counted"
CRASHES_ON: Final = "a run crashes forever"
OLD_ENDS_NEW: Final = "an attempt that had ended ended another one"
WRONGLY_ACCEPTED: Final = "an outcome was reported as accepted, and was not"
WRONGLY_REFUSED: Final = "an accepted completion was reported as refused"
VALID_REAPED: Final = "a valid lease was reaped"
CLAIM_WAITS: Final = "a claim waits for a handler's transaction"
REAP_WAITS: Final = "reap waits for a handler's transaction"
BOTH_WORK: Final = "two workers work on one run"
NOTHING: Final = ""

STORE: Final = "wakeboard/store/functions/"
WORKER: Final = "worker/wakeboard_worker/"


class Guard(NamedTuple):
    """`without`: what goes wrong in `world` if the guard is removed. `line`: the guard in `file` of the product."""

    name: str
    world: World
    without: str
    file: str
    line: str


GUARDS: Final = (
    Guard("claim takes free runs only", FENCE, NOT_COUNTED, STORE + "claim.sql", "locked_by = 0 and job_type"),
    Guard("claim checks again under the row's lock", FENCE, NOT_COUNTED, STORE + "claim.sql", "for update skip locked"),
    Guard("claim skips locked rows", FENCE, CLAIM_WAITS, STORE + "claim.sql", "for update of free skip locked"),
    Guard("claim's epoch", FENCE, OLD_ENDS_NEW, STORE + "claim.sql", "lease_epoch = lease_epoch + 1"),
    Guard("complete checks the epoch", FENCE, TWICE, STORE + "complete.sql", "and lease_epoch = epoch"),
    Guard("complete checks the worker", FAILOVER, TWICE, STORE + "complete.sql", "and locked_by = worker"),
    Guard("complete is one statement", FENCE, LOST, STORE + "complete.sql", "with done as ("),
    Guard(
        "complete recognises its repeats", FENCE, WRONGLY_REFUSED, STORE + "complete.sql", "past.lease_epoch = epoch"
    ),
    Guard("release checks the epoch", FENCE, OLD_ENDS_NEW, STORE + "release.sql", "run.lease_epoch = report.epoch"),
    Guard("release checks the worker", FAILOVER, OLD_ENDS_NEW, STORE + "fail.sql", "run.locked_by = fail.worker"),
    Guard("once checks the lease", FENCE, LATE_EFFECT, STORE + "once.sql", "run.lease_epoch = once.epoch"),
    Guard("once locks the run", FENCE, LATE_EFFECT, STORE + "once.sql", "for key share"),
    Guard(
        "an effect's key is unique",
        FENCE,
        EFFECT_TWICE,
        "wakeboard/store/migrations/0005_attempts_and_effects.sql",
        "an_effect_happens_once_per_run primary key (run_uuid, key)",
    ),
    Guard("expired leases are reaped", FENCE, STUCK, STORE + "reap.sql", "set locked_by = 0, locked_until = 'epoch'"),
    Guard(
        "reap takes expired leases only",
        VALIDITY,
        VALID_REAPED,
        STORE + "reap.sql",
        "locked_until < statement_timestamp()",
    ),
    Guard(
        "reap checks again under the row's lock",
        FENCE,
        VALID_REAPED,
        STORE + "reap.sql",
        "run.locked_until = classified.locked_until",
    ),
    Guard("reap skips locked rows", FENCE, REAP_WAITS, STORE + "reap.sql", "for update of run skip locked"),
    Guard("reap's epoch", FENCE, WRONGLY_ACCEPTED, STORE + "reap.sql", "lease_epoch = run.lease_epoch + 1"),
    Guard(
        "the last crash makes a run dead",
        FENCE,
        CRASHES_ON,
        STORE + "reap.sql",
        "crash_count + 1 >= crashes_until_dead then 'crashed dead'",
    ),
    Guard("slots are counted", LIMIT, LIMIT_BROKEN, STORE + "claim_limited.sql", "limit greatest(0, bound.max_running"),
    Guard(
        "slots are counted after the lock", LIMIT, LIMIT_BROKEN, STORE + "claim_limited.sql", "locked_keys := array("
    ),
    Guard(
        "the limit's row is locked", LIMIT, LIMIT_BROKEN, STORE + "claim_limited.sql", "by key for update skip locked"
    ),
    Guard("an expired lease keeps its slot", LIMIT, LIMIT_BROKEN, STORE + "claim_limited.sql", "and held.holds_slot"),
    Guard(
        "a worker stops without validity",
        VALIDITY,
        BOTH_WORK,
        WORKER + "heartbeat.py",
        "self._in_flight.drop_all_leases",
    ),
    Guard(
        "validity counts from sending", VALIDITY, BOTH_WORK, WORKER + "heartbeat.py", "= sent + self._worker.lease_s"
    ),
    Guard(
        "a late claim reply is discarded",
        VALIDITY,
        BOTH_WORK,
        WORKER + "fetcher.py",
        "boottime() - sent <= self._max_reply_s",
    ),
    Guard(
        "a claim reply needs validity when it is read",
        VALIDITY,
        BOTH_WORK,
        WORKER + "fetcher.py",
        "self._heartbeat.leases_valid() and boottime() - sent",
    ),
    # These two tell zombies sooner that their lease is lost. Nothing goes wrong without them.
    Guard("renew checks the lease", VALIDITY, NOTHING, STORE + "renew.sql", "run.lease_epoch = held.epoch"),
    Guard(
        "renew takes no expired lease", VALIDITY, NOTHING, STORE + "renew.sql", "locked_until > statement_timestamp()"
    ),
)
