"""A run with what happened to it, and the rows of that. The fields are public: they are keys of `--json`."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from wakeboard.text.mask_json import mask_json
from wakeboard.views.rules.run_rows import StoredRun

if TYPE_CHECKING:
    from datetime import datetime, timedelta

    from wakeboard.backfills.rules import BackfilledTicks
    from wakeboard.jobs.rules import KubernetesJob
    from wakeboard.views.rules.audit_rows import AuditRow


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptRow:
    """An attempt that did not succeed. `outcome`: see engine/attempt_outcomes.py.

    A successful attempt has no row of its own. `cause`: why the process of its worker ended, such as OOMKilled; `pod`:
    where it ran. Both are None unless the operator reported it.
    """

    attempt: int
    lease_epoch: int
    outcome: str
    started_at: datetime
    ended_at: datetime
    worker: str | None
    error_type: str | None
    error: str | None
    stack: str | None
    cause: str | None
    pod: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRow:
    """A named part of the run. `lease_epoch`: of the attempt that wrote it last.

    `state`: done, running, failed (its function raised `error`), or interrupted (its attempt ended without it).
    `ended_at`: of a step that is done or failed, or of the attempt of an interrupted one; None: it runs, or unknown.
    `progress`: from 0 to 1, if it is not done and has reported any.
    `reused_epochs`: the lease epochs of later attempts that took its stored result.
    `result`: JSON text, perhaps only its beginning; `length`: the number of characters of the whole text.
    """

    name: str
    state: str
    lease_epoch: int
    reused_epochs: list[int]
    started_at: datetime
    finished_at: datetime | None
    ended_at: datetime | None
    progress: float | None
    progress_message: str | None
    error: str | None
    result: str | None
    length: int | None

    @property
    def duration(self) -> timedelta | None:
        """How long it took; None: it runs, or it is unknown."""
        return self.ended_at - self.started_at if self.ended_at else None


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectRow:
    """Something that must happen once.

    `state`: done, begun (by the running attempt), or in doubt (the attempt that began it ended and did not report it as
    done). `lease_epoch`: of the attempt that began it first; `begun_epochs`: of those that began it again, in doubt;
    `finished_epoch`: of the one that reported it as done. `forever`: it happens once for its key, and this run had it.
    `taken_over`: another run began it, and this run has it since it was in doubt, at the earliest from `started_at` on.
    """

    key: str
    state: str
    lease_epoch: int
    begun_epochs: list[int]
    finished_epoch: int | None
    started_at: datetime
    finished_at: datetime | None
    forever: bool
    taken_over: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RunDetails(StoredRun):
    """A run with its attempts, steps, effects, and what administrators did to it.

    `kubernetes_jobs`: of a run of the job type `job`, one for each attempt. `backfilled`: the backfills that run ticks
    of a skipped row. `log_link`: where its log is in another system (WAKEBOARD_LOG_LINK). `earlier_steps`: starts of
    steps that did not finish them and that a later attempt repeated, the last 100 of each; oldest first.
    """

    attempts_made: list[AttemptRow]
    steps: list[StepRow]
    effects: list[EffectRow]
    actions: list[AuditRow]
    kubernetes_jobs: list[KubernetesJob]
    backfilled: list[BackfilledTicks]
    log_link: str | None = None
    earlier_steps: list[StepRow] = field(default_factory=list[StepRow])


def parsed_result(step: StepRow) -> Any:
    """The value of a step's result; None: it has none, or only its beginning was read."""
    return json.loads(step.result) if step.result and len(step.result) == step.length else None


def with_values(run: RunDetails, *, masked: bool = False) -> RunDetails:
    """The run with the values of its JSON texts, for JSON. `masked`: without the values of keys such as `password`.

    A step whose result was read in part has none.
    """

    def value(text: str | None) -> Any:
        return None if text is None else json.loads(mask_json(text).text if masked else text)

    steps = [
        replace(step, result=value(step.result if len(step.result or "") == step.length else None))
        for step in run.steps
    ]
    return replace(run, payload=value(run.payload), result=value(run.result), steps=steps)
