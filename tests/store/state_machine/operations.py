"""What the state machine may do next: each move, how often it is chosen, and what it may be given."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from tests.store.state_machine.model import ALL_DAY
from tests.store.tick_model import ModelSpec

WORKERS = st.sampled_from([1, 2, 3])
PICK = st.integers(0, 200)
YES_OR_NO = st.booleans()
SELDOM = st.sampled_from([False] * 5 + [True])
KEY = st.sampled_from(["charge", "mail"])
NAME = st.sampled_from(["x", "y"])
SPEC = st.builds(
    ModelSpec,
    policy=st.sampled_from(["Allow", "Forbid", "Queue", "Replace"]),
    catch_up=st.sampled_from(["All", "Latest", "Skip"]),
    deadline=YES_OR_NO,
    suspended=SELDOM,
    priority=st.sampled_from([3, 5]),
    limit_key=st.sampled_from([None, None, "k"]),
)
JOB: dict[str, st.SearchStrategy[Any]] = {
    "job_type": st.sampled_from(["ping", "pong"]),
    "queue": st.sampled_from(["a", "b"]),
    "priority": st.sampled_from([1, 3, 5]),
    "limit_key": st.sampled_from([None, None, "k", "l"]),
    "max_attempts": st.sampled_from([1, 2, 3]),
    "key": st.sampled_from([None, None, None, ("order", 1), ("order", 2), ("bill", 1)]),
    "later": SELDOM,
}
OUTCOME = st.sampled_from(["failed", "failed", "timed_out", "discarded"])
REASON = st.sampled_from(["worker_stopped", "worker_stopped", "disconnected", "snoozed", "not_started"])
PAUSE = st.sampled_from(["all", "queue:a", "queue:b", "schedule"])


def moves(times: int, name: str, /, **given: st.SearchStrategy[Any]) -> list[st.SearchStrategy[Any]]:
    """A method of the machine and what it is given, to be chosen so many times as often as others."""
    return [st.tuples(st.just(name), st.fixed_dictionaries(given)) for _ in range(times)]


NAMED = {"pick": PICK, "by_other": SELDOM}
SOME = {"all_of_it": SELDOM, **NAMED}

# One rule: of many, Hypothesis leaves out half in each example, and most stories need most of these.
ANY_MOVE = st.one_of(
    *moves(2, "enqueue", **JOB),
    *moves(
        5, "claim", worker=WORKERS, count=st.sampled_from([100, 100, 2]), scan_limit=st.sampled_from([2000, None, 2, 1])
    ),
    *moves(3, "claim_limited", worker=WORKERS, count=st.sampled_from([100, 1])),
    *moves(3, "claim_quarantined", worker=WORKERS),
    *moves(2, "renew", worker=WORKERS, pick=PICK, all_of_it=YES_OR_NO),
    *moves(4, "complete", **SOME),
    *moves(5, "fail", **SOME, outcome=OUTCOME, delay_s=st.sampled_from([0.0, None, float(ALL_DAY)])),
    *moves(4, "release", **SOME, delayed=SELDOM, reason=REASON),
    *moves(1, "register", worker=WORKERS),
    *moves(1, "deregister_worker", worker=WORKERS),
    *moves(3, "once", **NAMED, key=KEY, commit=YES_OR_NO),
    *moves(2, "end_of_transaction", commit=YES_OR_NO),
    *moves(3, "effect", **NAMED, key=KEY, done=SELDOM),
    *moves(3, "step", **NAMED, name=KEY, result=st.sampled_from([None, None, 1, [2]])),
    *moves(3, "a_lease_lapses", pick=PICK, timeout=SELDOM),
    *moves(7, "a_lease_lapses_and_is_taken_back", pick=PICK, timeout=SELDOM),
    *moves(1, "a_worker_falls_silent", worker=WORKERS),
    *moves(3, "a_run_becomes_due", pick=PICK),
    *moves(1, "a_run_has_a_past", pick=PICK, crashes=st.sampled_from([1, 2, 2]), releases=st.sampled_from([0, 3, 4])),
    *moves(1, "hours_pass", hours=st.sampled_from([1, 1, 2, 4])),
    *moves(4, "hours_pass_and_ticks_come", hours=st.sampled_from([1, 2, 4])),
    *moves(1, "reap", always=SELDOM),
    *moves(2, "skip_past_deadline"),
    *moves(1, "make_due_ticks"),
    *moves(1, "plan_ticks_for_later"),
    *moves(2, "make_ticks_of_an_old_plan", pick=PICK),
    *moves(2, "declare", name=NAME, spec=SPEC),
    *moves(1, "remove", name=NAME),
    *moves(2, "run_now", pick=PICK),
    *moves(3, "cancel", pick=PICK),
    *moves(2, "retry", pick=PICK),
    *moves(2, "discard", pick=PICK),
    *moves(1, "replay", pick=PICK),
    *moves(1, "set_limit", key=st.sampled_from(["k", "l"]), most=st.sampled_from([0, 1, 2, 3])),
    *moves(1, "pause", what=PAUSE, pick=PICK),
    *moves(2, "resume", pick=PICK),
)
