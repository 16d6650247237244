"""How an attempt ends that does not succeed: the one list of outcomes, which `job_attempts.outcome` stores.

An outcome that counts as a failure is part of failure rates, alerts and charts. The others do not count.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping


class AttemptOutcome(NamedTuple):
    """An outcome. `words`: what follows "Attempt 2" on a page."""

    words: str
    is_failure: bool = False


ATTEMPT_OUTCOMES: Final[Mapping[str, AttemptOutcome]] = {
    "failed": AttemptOutcome("failed", is_failure=True),
    "timed_out": AttemptOutcome("timed out", is_failure=True),
    "crashed": AttemptOutcome("crashed: its worker stopped answering", is_failure=True),
    "cancelled": AttemptOutcome("was cancelled"),
    "snoozed": AttemptOutcome("asked for a later run"),
    "released": AttemptOutcome("was given back"),
}
FAILURES: Final = tuple(name for name, outcome in ATTEMPT_OUTCOMES.items() if outcome.is_failure)
