"""Makes the Job of an attempt from the template of a CronJob. Pure functions.

The Job differs from what `kubectl create job --from=cronjob/…` makes in these points:

- The name derives from the run's uuid and the time at which the attempt became due. A run is due again at a new time
  after each failed attempt and each retry by a user, and at the same time after the loss of a lease and the stop of a
  worker. So an attempt has one name, whichever worker executes it, and the API server refuses a second Job of it.
- Retries belong to the run: `backoffLimit: 0`, `restartPolicy: Never`. A pod that the cluster disrupts (eviction,
  preemption, a drained node) is replaced once it is gone, and does not fail the Job.
- `activeDeadlineSeconds` is at most what is left of the run's timeout, so that a Job ends even if no worker follows it.
- It has no owner, and stays for a while after its end.
"""

from __future__ import annotations

import hashlib
import json
from copy import deepcopy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from wakeboard.store.pg_timestamp import to_pg_timestamp

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from datetime import datetime
    from uuid import UUID

    from wakeboard_worker.builtin.jobs.payload import JobPayload

RUN_UUID: Final = "wakeboard.dev/run-uuid"
RUN: Final = "wakeboard.dev/run"
ATTEMPT: Final = "wakeboard.dev/attempt"
SCHEDULE: Final = "wakeboard.dev/schedule"
GENERATION: Final = "wakeboard.dev/generation"
CRON_JOB: Final = "wakeboard.dev/cron-job"
DEFAULT_CONTAINER: Final = "kubectl.kubernetes.io/default-container"

LONGEST_BASE: Final = 36  # characters of the CronJob's name in the Job's, which with a pod's suffix has at most 63
DIGEST_DIGITS: Final = 16
DEFAULT_GRACE_S: Final = 30  # of a pod
MIN_TTL_S: Final = 60  # for a worker to read how the Job has ended
MAX_RULES: Final = 20  # of a podFailurePolicy
_NONE: Final[Mapping[str, str]] = {}


@dataclass(frozen=True, slots=True)
class AttemptFacts:
    """What a Job says of its attempt. `schedule`: namespace/name; `generation` of the schedule; None: unknown."""

    run_id: int
    uuid: UUID
    attempt: int
    schedule: str
    generation: int | None
    scheduled_for: datetime
    payload: Any


def job_name(cron_job: str, uuid: UUID, run_at: datetime) -> str:
    """The name of the Job of the attempt that became due at `run_at`."""
    digest = hashlib.sha256(uuid.bytes + to_pg_timestamp(run_at).to_bytes(8, "big", signed=True)).hexdigest()
    return f"{cron_job[:LONGEST_BASE].rstrip('-.')}-wb-{digest[:DIGEST_DIGITS]}"


def stop_after_s(timeout_s: float, grace_s: int) -> float:
    """Seconds after the start of an attempt when its Job is stopped, so that its pods are gone at the timeout."""
    return max(1.0, timeout_s - grace_s)


def grace_of(pod_spec: Mapping[str, Any], timeout_s: float) -> int:
    """Seconds that a pod gets to end: those of the template, but at most a third of the timeout."""
    given = pod_spec.get("terminationGracePeriodSeconds")
    return int(min(DEFAULT_GRACE_S if given is None else given, max(1, timeout_s // 3)))


def part(of: Mapping[str, Any], key: str) -> dict[str, Any]:
    """The object under a key; empty if there is none."""
    return of.get(key) or {}


def main_container(template: Mapping[str, Any]) -> str:
    """The name of the container whose log and exit code count: kubectl's default container, or the first one."""
    names: list[str] = [container["name"] for container in template["spec"]["containers"]]
    annotated = part(part(template, "metadata"), "annotations").get(DEFAULT_CONTAINER)
    return annotated if annotated in names else names[0]


def job_of(
    cron_job: Mapping[str, Any],
    name: str,
    facts: AttemptFacts,
    payload: JobPayload,
    timeout_s: float,
    left_s: float,
    ttl_s: int,
) -> dict[str, Any]:
    """Returns the Job of an attempt. `left_s`: of the run's timeout. `ttl_s`: how long it stays by default."""
    found = cron_job["spec"]["jobTemplate"]
    spec: dict[str, Any] = deepcopy(found["spec"])
    for key in ("selector", "manualSelector", "backoffLimitPerIndex", "maxFailedIndexes"):
        spec.pop(key, None)
    deadline_s = max(1, round(left_s))
    spec["backoffLimit"] = 0
    spec["podReplacementPolicy"] = "Failed"
    spec["podFailurePolicy"] = _failure_policy(part(spec, "podFailurePolicy"))
    given_ttl_s = spec.get("ttlSecondsAfterFinished")
    spec["ttlSecondsAfterFinished"] = ttl_s if given_ttl_s is None else max(MIN_TTL_S, given_ttl_s)
    spec["activeDeadlineSeconds"] = min(deadline_s, spec.get("activeDeadlineSeconds") or deadline_s)
    template: dict[str, Any] = spec["template"]
    pod: dict[str, Any] = template["spec"]
    pod["restartPolicy"] = "Never"
    pod["terminationGracePeriodSeconds"] = grace_of(pod, timeout_s)
    labels = _labels(facts)
    about = part(template, "metadata")
    template["metadata"] = about | {"labels": part(about, "labels") | labels}
    main = main_container(template)
    for container in [*pod.get("initContainers", []), *pod["containers"]]:
        variables = {**(payload.env if container["name"] == main else _NONE), **_own_variables(facts)}
        container["env"] = list(_env(container.get("env") or [], variables))
        if container["name"] == main and payload.args is not None:
            container["args"] = [_literal(arg) for arg in payload.args]
    metadata = part(found, "metadata")
    annotations = part(metadata, "annotations") | {
        SCHEDULE: facts.schedule,
        CRON_JOB: cron_job["metadata"]["name"],
        **({GENERATION: str(facts.generation)} if facts.generation is not None else {}),
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": name,
            "namespace": cron_job["metadata"]["namespace"],
            "labels": part(metadata, "labels") | labels,
            "annotations": annotations,
        },
        "spec": spec,
    }


def _labels(facts: AttemptFacts) -> dict[str, str]:
    name = facts.schedule.partition("/")[2]
    return {RUN: str(facts.run_id), RUN_UUID: str(facts.uuid), ATTEMPT: str(facts.attempt), SCHEDULE: name[:63]}


def _failure_policy(given: Mapping[str, Any]) -> dict[str, Any]:
    """The template's rules (without those that need backoffLimitPerIndex), and one that ignores disruptions."""
    found: list[dict[str, Any]] = given.get("rules") or []
    rules = [rule for rule in found if rule["action"] != "FailIndex"]
    disrupted = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
    return {"rules": [*rules[: MAX_RULES - 1], disrupted]}


def _own_variables(facts: AttemptFacts) -> dict[str, str]:
    return {
        "WAKEBOARD_RUN_ID": str(facts.run_id),
        "WAKEBOARD_RUN_UUID": str(facts.uuid),
        "WAKEBOARD_ATTEMPT": str(facts.attempt),
        "WAKEBOARD_SCHEDULED_FOR": facts.scheduled_for.isoformat().replace("+00:00", "Z"),
        "WAKEBOARD_PAYLOAD": json.dumps(facts.payload, ensure_ascii=False),
    }


def _env(given: list[dict[str, Any]], variables: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    """The container's variables, and ours in place of those of the same name."""
    yield from (variable for variable in given if variable["name"] not in variables)
    yield from ({"name": name, "value": _literal(value)} for name, value in variables.items())


def _literal(text: str) -> str:
    """The text as a container gets it: Kubernetes replaces `$(NAME)`, and `$$` by one `$`."""
    return text.replace("$", "$$")
