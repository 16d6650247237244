"""The operations of the state machine: their weights and their arguments."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from tests.store.state_machine.model import ALL_DAY
from tests.store.tick_model import ModelSpec

WORKERS = st.sampled_from([1, 2, 3])
PICK = st.integers(0, 200)
BOOLEAN = st.booleans()
RARELY = st.sampled_from([False] * 5 + [True])
KEY = st.sampled_from(["charge", "mail"])
NAME = st.sampled_from(["x", "y"])
SPEC = st.builds(
    ModelSpec,
    policy=st.sampled_from(["Allow", "Forbid", "Queue", "Replace"]),
    catch_up=st.sampled_from(["All", "Latest", "Skip"]),
    deadline=BOOLEAN,
    suspended=RARELY,
    priority=st.sampled_from([3, 5]),
    limit_key=st.sampled_from([None, None, "k"]),
    suspend_after_dead=st.sampled_from([None, None, 1, 2]),
)
POLICY = st.sampled_from(["Allow", "Allow", "Forbid", "Queue", "Replace"])
AFTER = st.builds(
    ModelSpec,
    policy=POLICY,
    deadline=RARELY,
    suspended=RARELY,
    after=st.sampled_from(
        [
            (("x", "Succeeded", "Same"),),
            (("x", "Succeeded", "Same"), ("y", "Succeeded", "Same")),
            (("y", "Ended", "Same"),),
            (("x", "Ended", "Same"), ("y", "Succeeded", "All")),
            (("y", "Succeeded", "Same"), ("x", "Ended", "Same")),
        ]
    ),
)
AFTER_X = st.builds(ModelSpec, policy=POLICY, suspended=RARELY, after=st.just((("x", "Succeeded", "Same"),)))
AFTER_Z = st.builds(
    ModelSpec,
    after=st.sampled_from(
        [(("z", "Succeeded", "Same"),), (("z", "Ended", "Same"),), (("z", "Succeeded", "Same"), ("x", "Ended", "Same"))]
    ),
)
LIMIT = st.sampled_from(["k", "l"])
JOB: dict[str, st.SearchStrategy[Any]] = {
    "job_type": st.sampled_from(["ping", "pong"]),
    "queue": st.sampled_from(["a", "b"]),
    "priority": st.sampled_from([1, 3, 5]),
    "limit_key": st.sampled_from([None, None, "k", "l"]),
    "max_attempts": st.sampled_from([1, 2, 3]),
    "key": st.sampled_from([None, None, None, ("order", 1), ("order", 2), ("bill", 1)]),
    "later": RARELY,
}
OUTCOME = st.sampled_from(["failed", "failed", "timed_out", "discarded"])
REASON = st.sampled_from(["worker_stopped", "worker_stopped", "disconnected", "snoozed", "not_started"])
CRASHES = st.sampled_from([1, 2, 2])
RELEASES = st.sampled_from([0, 3, 4])
PAUSE = st.sampled_from(["all", "queue:a", "queue:b", "schedule"])


Operation = tuple[str, st.SearchStrategy[Any]]


def weighted(weight: int, name: str, /, **arguments: st.SearchStrategy[Any]) -> list[Operation]:
    """A method of the machine with its arguments, `weight` times. `one_of` drops a strategy that it has already."""
    return [(name, st.tuples(st.just(name), st.fixed_dictionaries(arguments))) for _ in range(weight)]


NAMED = {"pick": PICK, "by_other": RARELY}
SOME = {"all_of_it": RARELY, **NAMED}

# The machine has one rule. Of many rules, Hypothesis disables half in each example, and most bugs need most of them.
_OPERATIONS: list[Operation] = [
    *weighted(2, "enqueue", **JOB),
    *weighted(
        5, "claim", worker=WORKERS, count=st.sampled_from([100, 100, 2]), scan_limit=st.sampled_from([2000, None, 2, 1])
    ),
    *weighted(3, "claim_limited", worker=WORKERS, count=st.sampled_from([100, 1])),
    *weighted(3, "claim_quarantined", worker=WORKERS),
    *weighted(2, "renew", worker=WORKERS, pick=PICK, all_of_it=BOOLEAN),
    *weighted(4, "complete", **SOME),
    *weighted(5, "fail", **SOME, outcome=OUTCOME, delay_s=st.sampled_from([0.0, None, float(ALL_DAY)])),
    *weighted(4, "release", **SOME, delayed=RARELY, reason=REASON),
    *weighted(1, "register", worker=WORKERS),
    *weighted(1, "deregister_worker", worker=WORKERS),
    *weighted(3, "once", **NAMED, key=KEY, commit=BOOLEAN, forever=BOOLEAN),
    *weighted(2, "end_of_transaction", commit=BOOLEAN),
    *weighted(4, "effect", **NAMED, key=KEY, done=RARELY, forever=BOOLEAN),
    *weighted(3, "step", **NAMED, name=KEY, result=st.sampled_from([None, None, 1, [2]])),
    *weighted(3, "a_lease_expires", pick=PICK, timeout=RARELY),
    *weighted(7, "a_lease_expires_and_is_reaped", pick=PICK, timeout=RARELY),
    *weighted(1, "a_worker_stops_heartbeats", worker=WORKERS),
    *weighted(3, "a_run_becomes_due", pick=PICK),
    *weighted(
        1,
        "a_run_has_earlier_crashes",
        pick=PICK,
        crashes=st.sampled_from([1, 2, 2]),
        releases=st.sampled_from([0, 3, 4]),
    ),
    *weighted(1, "hours_pass", hours=st.sampled_from([1, 1, 2, 4])),
    *weighted(4, "hours_pass_and_ticks_are_scheduled", hours=st.sampled_from([1, 2, 4])),
    *weighted(3, "report_terminated", worker=WORKERS, cause=st.sampled_from(["OOMKilled", "Evicted"])),
    *weighted(1, "reap", always=RARELY),
    *weighted(2, "skip_past_deadline"),
    *weighted(1, "schedule_due_ticks"),
    *weighted(1, "plan_ticks_for_later"),
    *weighted(2, "enqueue_ticks_of_an_old_plan", pick=PICK),
    *weighted(2, "declare", name=NAME, spec=SPEC),
    *weighted(1, "remove", name=st.sampled_from(["x", "y", "y", "z"])),
    *weighted(2, "run_now", pick=PICK),
    *weighted(3, "cancel", pick=PICK),
    *weighted(2, "retry", pick=PICK),
    *weighted(2, "discard", pick=PICK),
    *weighted(2, "revoke", pick=PICK),
    *weighted(1, "replay", pick=PICK),
    *weighted(1, "set_limit", key=st.sampled_from(["k", "l"]), most=st.sampled_from([0, 1, 2, 3])),
    *weighted(1, "pause", what=PAUSE, pick=PICK),
    *weighted(2, "resume", pick=PICK),
    *weighted(2, "enqueue_after", picks=st.lists(PICK, min_size=1, max_size=2).map(tuple), later=RARELY),
    *weighted(1, "enqueue_unique", customer=st.sampled_from([1, 2]), replaces=BOOLEAN, window_ends=RARELY),
    *weighted(1, "set_rate", key=LIMIT, burst=st.sampled_from([1, 2, 3, None])),
    *weighted(1, "units_come_back", key=LIMIT, units=st.sampled_from([1, 1, 2])),
    *weighted(1, "consume", **NAMED, units=st.sampled_from([1, 2, 5])),
    *weighted(1, "pause_limit", **NAMED, ends=BOOLEAN),
    *weighted(1, "update_circuits"),
    *weighted(1, "close_circuit", pick=PICK),
    *weighted(
        2,
        "backfill",
        pick=PICK,
        back=st.integers(1, 5),
        count=st.integers(1, 3),
        at_once=st.integers(1, 2),
        again=RARELY,
    ),
    *weighted(1, "continue_backfills"),
    *weighted(1, "pause_backfill", pick=PICK),
    *weighted(1, "resume_backfill", pick=PICK),
    *weighted(1, "cancel_backfill", pick=PICK),
    *weighted(4, "pass_on"),
    *weighted(
        3,
        "report_beside_an_open_transaction",
        action=st.sampled_from(["cancel", "retry", "discard", "set_limit", "run_now", "reap"]),
        outcome=st.sampled_from(["complete", "fail", "release", "renew"]),
        pick=PICK,
    ),
    *weighted(1, "renew_an_older_epoch", pick=PICK),
    *weighted(1, "save"),
    *weighted(3, "forget", noticed=BOOLEAN),
    *weighted(1, "enqueue_a_forged_plan", pick=PICK, future=BOOLEAN),
    *weighted(
        1,
        "call_in_another_isolation_level",
        name=st.sampled_from(["cancel", "retry", "discard", "run_now", "claim_limited", "enqueue_due_ticks"]),
        level=st.sampled_from(["repeatable read", "serializable"]),
    ),
    *weighted(1, "declare", name=st.just("w"), spec=AFTER_Z),
    *weighted(2, "declare", name=st.just("z"), spec=AFTER),  # an edit of the graph
    *weighted(1, "declare", name=st.sampled_from(["y", "z"]), spec=AFTER_X),  # x and y: acyclic
    *weighted(1, "declare", name=st.just("z"), spec=SPEC),
]


def operations(*names: str) -> st.SearchStrategy[Any]:
    """The operations of these names; all if none is given."""
    return st.one_of(*(strategy for name, strategy in _OPERATIONS if not names or name in names))


ANY_OPERATION = operations()
