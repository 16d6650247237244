"""An outcome or a result that the worker cannot foresee ends its own attempt, and nothing else."""

from __future__ import annotations

import copy
import pickle
from typing import TYPE_CHECKING, Any, cast

import pytest

import wakeboard
from tests.worker.odd_outcomes import NotANumber, OddRetry, OddSnooze
from wakeboard import errors
from wakeboard.errors import MIN_SNOOZE_S
from wakeboard_worker.outcomes import failure

if TYPE_CHECKING:
    from tests.worker.conftest import Store

# What a handler requests, and the status and error of its run after one attempt.
REQUESTS = {
    "snooze": ("queued", None, None),
    "not a number": ("queued", None, None),
    "retry": ("failed", "OddRetry", "later"),
    "tiny": ("failed", "RetryAfter", "retry after "),
    "snooze soon": ("failed", "SnoozeSoon", "later (SnoozeSoon requests no valid outcome: ValueError: "),
    "retry soon": ("failed", "RetrySoon", "later (RetrySoon requests no valid outcome: ValueError: "),
    "no seconds": ("failed", "NoSeconds", "later (NoSeconds requests no valid outcome: TypeError: "),
    "object": ("failed", "ObjectAsSeconds", "later (ObjectAsSeconds requests no valid outcome: TypeError: "),
    "raises": ("failed", "Raises", "later (Raises requests no valid outcome: SystemExit: 3)"),
    "unreadable": ("failed", "Unreadable", "<Unreadable that cannot be shown> (Unreadable requests no valid "),
    "a date": ("succeeded", None, None),
}
# The worker must not claim a run again before the test has seen what became of it.
HOLD = """
create function hold() returns trigger language plpgsql as $$
begin
  if old.status = 'running' and new.status <> 'running' then
    new.run_at := '2900-01-01Z';
  end if;
  return new;
end $$;
create trigger hold before update on wakeboard.job_runs for each row execute function hold()
"""


def test_an_odd_outcome_ends_its_own_attempt_only(store: Store) -> None:
    store.watcher.do(HOLD)
    cases = [(job_type, what) for job_type in ("at-once", "later", "in-a-thread") for what in REQUESTS]
    runs = {(job_type, what): store.enqueue(job_type, f'{{"what": "{what}"}}')[0] for job_type, what in cases}
    worker = store.wake(handlers="tests.worker.odd_handlers")
    for case, run in runs.items():
        status, error_type, error = REQUESTS[case[1]]
        seen = store.run(run)
        assert (seen["status"], seen["error_type"], seen["crash_count"]) == (status, error_type, 0), (case, worker.log)
        assert (seen["last_error"] or "").startswith(error or ""), case
    assert "lost" not in worker.log


class Attempt:
    id = epoch = 1
    stopped_because = effect_conn = None


@pytest.mark.parametrize(
    ("error", "delay_s"),
    [
        (OddSnooze(), MIN_SNOOZE_S),
        (NotANumber(), MIN_SNOOZE_S),
        (OddRetry(), None),  # the run's backoff
        (wakeboard.RetryAfter(1e-320), 0.0),
        (wakeboard.RetryAfter(1.5), 1.5),
        (wakeboard.RetryAfter(1e300), 31 * 86_400.0),
    ],
)
def test_the_delay_of_an_outcome(error: BaseException, delay_s: float | None) -> None:
    assert failure(cast("Any", Attempt()), error).delay_s == delay_s


def _each_error() -> list[Exception]:
    """One of each public class of `errors`, and subclasses with constructors of their own."""
    own = {errors.RetryAfter, errors.Snooze, errors.EffectHeld}  # whose argument is no text
    kinds = [each for each in vars(errors).values() if isinstance(each, type) and issubclass(each, Exception)]
    plain = [kind("why") for kind in kinds if kind not in own and not kind.__name__.startswith("_")]
    limited = errors.RetryAfter(60, limit=True)
    limited.add_note("a note")
    return [
        *plain,
        errors.Snooze(60),
        errors.EffectHeld("k", 7),
        errors.RetryAfter(60, "busy"),
        limited,
        OddSnooze(),
        OddRetry(),
    ]


@pytest.mark.parametrize("error", _each_error(), ids=lambda error: type(error).__name__)
def test_an_error_crosses_a_process_pool_unchanged(error: Exception) -> None:
    pickled = [pickle.loads(pickle.dumps(error, protocol)) for protocol in range(pickle.HIGHEST_PROTOCOL + 1)]
    for copied in (*pickled, copy.copy(error), copy.deepcopy(error)):
        assert type(copied) is type(error)
        assert (str(copied), copied.args, vars(copied)) == (str(error), error.args, vars(error))
