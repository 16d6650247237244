"""The Kubernetes Jobs of a run of the job type `job`, read from its steps. Pure functions.

The handler records each Job as up to four steps: `Job 1`, `Job 1 scheduled`, `Job 1 started` and `Job 1 ended`
(step_records.py of the worker). Steps of this name that say anything else belong to another handler, and are left out.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, cast

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    _Step = tuple[datetime | None, Mapping[str, Any]]  # time of the end, and result

JOB_TYPE: Final = "job"
_STEP: Final = re.compile(r"Job ([1-9][0-9]{0,8})(?: (scheduled|started|ended))?")
_NAME: Final = "[a-z0-9][a-z0-9.-]{0,252}"
_LOGS: Final = re.compile(f"kubectl logs --namespace ({_NAME}) job/({_NAME}) --container {_NAME}")
_COMPLETE: Final = "Complete"
_NOTHING: Final[_Step] = (None, {})


@dataclass(frozen=True, slots=True, kw_only=True)
class KubernetesJob:
    """A Job of a run. `number`: among those of the run, from 1. `logs`: the command that prints its log.

    The phases of its pod are None until they are reached: `scheduled_at`, `started_at` (its main container),
    `ended_at`. `outcome`: Complete or Failed. `exit_code`: of the main container; None: it has none, or it is unknown.
    """

    number: int
    namespace: str
    name: str
    pod: str | None
    node: str | None
    created_at: datetime
    scheduled_at: datetime | None
    started_at: datetime | None
    ended_at: datetime | None
    outcome: str | None
    exit_code: int | None
    logs: str

    @property
    def phases(self) -> list[tuple[str, datetime | None, str]]:
        """Each phase that was reached, its time, and a note."""
        times = {"created": self.created_at, "scheduled": self.scheduled_at, "started": self.started_at}
        phases: list[tuple[str, datetime | None, str]] = [(name, at, "") for name, at in times.items() if at]
        if self.outcome:
            code = "" if self.exit_code is None else f"exit code {self.exit_code}"
            failed = "" if self.outcome == _COMPLETE else self.outcome
            phases.append(("ended", self.ended_at, ", ".join(filter(None, (failed, code)))))
        return phases


def kubernetes_jobs(job_type: str, steps: Iterable[tuple[str, datetime | None, Any]]) -> list[KubernetesJob]:
    """The Jobs of a run, oldest first. `steps`: name, time of the end, and result of each."""
    if job_type != JOB_TYPE:
        return []
    parts: dict[int, dict[str, _Step]] = {}
    for name, finished_at, result in steps:
        if (found := _STEP.fullmatch(name)) and finished_at and isinstance(result, dict):
            about = parts.setdefault(int(found[1]), {})
            about[found[2] or ""] = finished_at, cast("dict[str, Any]", result)
    return [job for number in sorted(parts) if (job := _job(number, parts[number])) is not None]


def _job(number: int, parts: dict[str, _Step]) -> KubernetesJob | None:
    recorded_at, record = parts.get("", _NOTHING)
    logs = _LOGS.fullmatch(_text(record, "logs") or "")
    if recorded_at is None or logs is None:
        return None
    scheduled, started, ended = (parts.get(phase, _NOTHING)[1] for phase in ("scheduled", "started", "ended"))
    code = ended.get("exit_code")
    return KubernetesJob(
        number=number,
        namespace=logs[1],
        name=logs[2],
        pod=_last("pod", scheduled, started, ended),
        node=_last("node", scheduled, started, ended),
        created_at=_time(record) or recorded_at,
        scheduled_at=_time(scheduled),
        started_at=_time(started),
        ended_at=_time(ended),
        outcome=_text(ended, "outcome"),
        exit_code=code if isinstance(code, int) and not isinstance(code, bool) else None,
        logs=logs[0],
    )


def _last(key: str, *phases: Mapping[str, Any]) -> str | None:
    """The text of the last phase that has one: a pod that the cluster disrupts is replaced."""
    return next((text for facts in reversed(phases) if (text := _text(facts, key))), None)


def _text(facts: Mapping[str, Any], key: str) -> str | None:
    found = facts.get(key)
    return found if isinstance(found, str) and found else None


def _time(facts: Mapping[str, Any]) -> datetime | None:
    try:
        found = datetime.fromisoformat(_text(facts, "at") or "")
    except ValueError:
        return None
    return found if found.tzinfo else None
