"""Maps a Kubernetes CronJob to a JobSchedule of the job type `job`, field by field, and says what differs in meaning.

The CronJob stays: suspended, it is the template of the runs' Jobs. What a JobSchedule cannot do in the same way is
refused, with the reason, or stated as one sentence. docs/from-cronjob.md explains the differences, which come from the
source of the CronJob controller of Kubernetes 1.36.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast

from wakeboard.errors import InvalidSchedule
from wakeboard.imports.rules.imported_schedule import (
    ImportedSchedule,
    Mapped,
    clock_changes_matter,
    equal_expression,
)
from wakeboard.imports.rules.kubernetes_cron import KubernetesCron, parse_kubernetes_cron, zone_prefix
from wakeboard.imports.rules.options import LONGEST_TIMEOUT_S, POOL_TIMEOUT_S
from wakeboard.schedules.rules.schedule_origin import without_tools
from wakeboard.text.humanize import counted
from wakeboard.text.sanitize import json_text
from wakeboard.ticks.cron_parser import parse_cron
from wakeboard.ticks.zones import known_zones, unknown_zone

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from wakeboard.imports.rules.options import ImportOptions

API_VERSION: Final = "batch/v1"
LONGEST_NAME: Final = 52  # characters; Kubernetes adds 11 for the name of a Job

_BACKOFF_LIMIT: Final = 6  # the default
_FIRST_PAUSE_S: Final = 10
_LONGEST_PAUSE_S: Final = 600
_MOST_ATTEMPTS: Final = 1000
_YEAR_S: Final = 365 * 86_400
_SHORT_DEADLINE_S: Final = 120  # a waking pool may start a run a minute after its tick

_SHOWN: Final = 60  # characters of a value
_POLICIES: Final = ("Allow", "Forbid", "Replace")
_KINDS: Final = {str: "text", int: "a whole number", bool: "true or false", dict: "an object"}
_SPEC_FIELDS: Final = {
    "schedule": str,
    "timeZone": str,
    "concurrencyPolicy": str,
    "startingDeadlineSeconds": int,
    "suspend": bool,
}
_JOB_FIELDS: Final = {"activeDeadlineSeconds": int, "backoffLimit": int, "completions": int, "parallelism": int}
_ARGO_CD_LABEL: Final = "app.kubernetes.io/instance"  # the default of Argo CD before version 3
_KUEUE: Final = "kueue.x-k8s.io/queue-name"  # a label of the Job
_LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
_SET_BY_SERVER: Final = frozenset(
    {"creationTimestamp", "deletionTimestamp", "generation", "managedFields", "resourceVersion", "selfLink", "uid"}
)

_ATTEMPTS = (
    "backoffLimit counts the failed pods of one Job; maxAttempts counts attempts, and each attempt is a Job of its own "
    "with one try. A run whose attempts have all failed is dead: it stays and waits for a user."
)
_HISTORY = (
    "successfulJobsHistoryLimit and failedJobsHistoryLimit do not apply: the database keeps the history of all runs, "
    "and a finished Job stays for ttlSecondsAfterFinished, at least a minute; without it for "
    "the time that the pool sets (one hour)."
)
_ONE_DEADLINE = (
    "activeDeadlineSeconds limits one Job with all its retries; timeoutSeconds limits each attempt, so all attempts "
    "together may take longer."
)
_NO_DEADLINE = (
    "Without activeDeadlineSeconds a Job may run for ever; the JobSchedule stops an attempt after {timeout} seconds, "
    "and --timeout sets another limit."
)
_LONG_TIMEOUT = (
    "A pool claims only runs with a timeout up to its maxTimeoutSeconds: 31 days in a pool of the chart with "
    "jobs.enabled, unless you set less. It must be at least the timeoutSeconds of these schedules."
)
_NO_ZONE = (
    "Without timeZone a CronJob ticks in the zone of kube-controller-manager, usually UTC, which the object does not "
    "name; the JobSchedule has {zone}, and --default-zone sets another."
)
_PREFIX = (
    "Kubernetes refuses a new CronJob with TZ= or CRON_TZ= in its schedule, but still takes a change of an old one: "
    "before you create it in another cluster, write timeZone instead."
)
_MISSED = (
    "After an outage both start the newest missed tick, and only that one. Above 100 missed ticks Kubernetes "
    "writes a warning, and its older versions start nothing; a JobSchedule records the others as skipped."
)
_DEADLINE = (
    "startingDeadlineSeconds now includes the wait for a worker: a run that no worker has started by then is skipped "
    "and recorded."
)
_SHORT_DEADLINE = (
    "startingDeadlineSeconds is below two minutes, which is too short for a pool that wakes each minute; use a pool "
    "with mode: forever, or raise it."
)
_DEADLINE_0 = "startingDeadlineSeconds: 0 lets a CronJob start hardly ever; the JobSchedule has 1, the lowest value."
_FORBID = (
    "With Forbid, a CronJob starts the newest tick that it has skipped as soon as the running Job ends; a JobSchedule "
    "skips it for good and records it. A run that waits for its next attempt counts as unfinished, too."
)
_REPLACE = (
    "With Replace, a JobSchedule also cancels a run that waits for its next attempt, and the new run starts when the "
    "pod of the old one is gone."
)
_SUSPENDED = (
    "When a suspended CronJob resumes, Kubernetes at once starts the newest tick that it missed meanwhile; a "
    "JobSchedule continues with its next tick."
)
_ON_FAILURE = (
    "restartPolicy OnFailure restarts a container in its pod; each attempt of a run has a new pod, so what the failed "
    "attempt left in an emptyDir is gone."
)
_SEVERAL_PODS = (
    "The Job has several pods (completions or parallelism): one attempt is the whole Job, and its first failed pod "
    "ends the attempt."
)
_POD_FAILURE_POLICY = (
    "podFailurePolicy still applies within the Job of an attempt: Ignore replaces the pod, FailJob makes the run dead "
    "without further attempts, and any other failed pod ends the attempt; rules with FailIndex are left out."
)
_TWO_ZONES = (
    "timeZone: {zone} was dropped: the schedule names a zone, too, which wins in Kubernetes as well (and Kubernetes "
    "refuses the two together in a new object)."
)
_QUEUED = (
    "Kueue starts the Job of each attempt when it admits it: the wait counts against timeoutSeconds, so make that "
    "longer."
)
_DST = (
    "When the clock changes, a CronJob leaves out ticks in the lost hour and runs those of the repeated hour twice. "
    "`dst` keeps that; without it each tick runs once."
)
_EVERY = (
    "@every counts from the tick before, and first from the creation of the CronJob; the JobSchedule ticks at whole "
    "steps of the clock."
)
_HELM = (
    "Helm manages the CronJob: set suspend in the chart's values or templates, too, or the next upgrade may resume it."
)
_OWNED = (
    "Another object owns the CronJob and may undo `suspend: true`: suspend it there, or remove the owner reference."
)


def import_cron_job(cron_job: Mapping[str, Any], options: ImportOptions) -> ImportedSchedule:
    """The JobSchedule that continues `cron_job`, an object as the API server or a manifest has it.

    Raises InvalidSchedule with a sentence for each reason why it cannot be imported.
    """
    metadata, spec = _mapping(cron_job, "metadata"), _mapping(cron_job, "spec")
    job = _mapping(_mapping(spec, "jobTemplate"), "spec")
    reasons = [*_refusals(cron_job, metadata, spec, job)]
    if reasons:
        raise InvalidSchedule(*reasons)
    name, namespace = metadata["name"], metadata.get("namespace")
    zone, expression = _zone_and_expression(spec, options)
    cron = parse_kubernetes_cron(expression)
    wanted: dict[str, Any] = {"jobType": "job", "payload": {"cronJob": name}}
    maps: list[Mapped] = []
    changes: list[str] = []
    for fields, mapped, sentences in (
        _schedule(spec, cron, expression, zone, options),
        _policies(spec, options),
        _limits(job, options),
    ):
        wanted |= fields
        maps += mapped
        changes += sentences
    wanted |= {"queue": options.queue} if options.queue else {}
    changes += _notes(metadata, job)
    imported = ImportedSchedule(
        namespace=namespace,
        name=name,
        spec=wanted,
        maps=tuple(maps),
        changes=tuple(changes),
        cron=cron,
        zone=zone,
        labels=_of_users(metadata, "labels"),
        annotations=_of_users(metadata, "annotations"),
    )
    return imported.checked()


def _of_users(metadata: Mapping[str, Any], field: str) -> dict[str, str]:
    """Labels or annotations, without those by which a tool would claim a JobSchedule as its own and remove it."""
    return {name: value for name, value in without_tools(_mapping(metadata, field)).items() if name != _ARGO_CD_LABEL}


def suspended_cron_job(cron_job: Mapping[str, Any]) -> dict[str, Any]:
    """The same CronJob with `suspend: true`, without its status and what only the API server sets."""
    metadata = {key: value for key, value in _mapping(cron_job, "metadata").items() if key not in _SET_BY_SERVER}
    annotations = {key: value for key, value in _mapping(metadata, "annotations").items() if key != _LAST_APPLIED}
    metadata |= {"annotations": annotations} if annotations else {}
    if not annotations:
        metadata.pop("annotations", None)
    spec = {key: value for key, value in _mapping(cron_job, "spec").items() if key != "suspend"}
    return {
        "apiVersion": API_VERSION,
        "kind": "CronJob",
        "metadata": metadata,
        "spec": {"suspend": True, **cast("dict[str, Any]", _without_empty_times(spec))},
    }


def _without_empty_times(value: object) -> object:
    """A value without `creationTimestamp: null`, which older API servers write into templates."""
    if isinstance(value, dict):
        parts = {key: _without_empty_times(part) for key, part in cast("dict[str, Any]", value).items()}
        if parts.get("creationTimestamp", "") is None:
            del parts["creationTimestamp"]
        return parts
    return [_without_empty_times(part) for part in cast("list[Any]", value)] if isinstance(value, list) else value


# -- The fields --------------------------------------------------------------------------------------------------------

_Part = tuple[dict[str, Any], "list[Mapped]", "list[str]"]  # fields of the spec, what they were, and what differs


def _schedule(
    spec: Mapping[str, Any], cron: KubernetesCron, expression: str, zone: str, options: ImportOptions
) -> _Part:
    changes: list[str] = []
    if cron.every_s is not None:
        target = _aligned(cron.every_s, expression)
        changes.append(_EVERY)
    else:
        target = equal_expression(expression, cron)
    fields: dict[str, Any] = {"schedule": target, "timeZone": zone}
    maps = [Mapped(source=_field("schedule", spec["schedule"]), target=_field("schedule", target))]
    if spec.get("timeZone") is not None and "TZ" not in spec["schedule"]:
        maps.append(Mapped(source=_field("timeZone", zone), target=_field("timeZone", zone)))
    else:
        maps.append(Mapped(source="TZ= prefix" if "TZ" in spec["schedule"] else "", target=_field("timeZone", zone)))
        changes.append(_PREFIX if "TZ" in spec["schedule"] else _NO_ZONE.format(zone=zone))
        changes += [_TWO_ZONES.format(zone=spec["timeZone"])] if spec.get("timeZone") else []
    if cron.every_s is None and clock_changes_matter(parse_cron(target, name=""), zone, options.now, "Skip", "Both"):
        fields["dst"] = {"gap": "Skip", "overlap": "Both"}
        maps.append(Mapped(source="", target="dst: {gap: Skip, overlap: Both}"))
        changes.append(_DST)
    return fields, maps, changes


def _policies(spec: Mapping[str, Any], options: ImportOptions) -> _Part:
    policy, deadline = spec.get("concurrencyPolicy") or "Allow", spec.get("startingDeadlineSeconds")
    fields: dict[str, Any] = {"concurrencyPolicy": policy} if policy != "Allow" else {}
    maps = [_kept("concurrencyPolicy", policy)] if policy != "Allow" else []
    changes = {"Forbid": [_FORBID], "Replace": [_REPLACE]}.get(policy, [])
    if deadline is None:
        changes = [*changes, _MISSED]
    else:
        seconds = min(max(deadline, 1), _YEAR_S)
        fields["startingDeadlineSeconds"] = seconds
        maps.append(
            Mapped(
                source=_field("startingDeadlineSeconds", deadline), target=_field("startingDeadlineSeconds", seconds)
            )
        )
        short = [_SHORT_DEADLINE] if seconds < _SHORT_DEADLINE_S else []
        changes = [*changes, _DEADLINE, *([_DEADLINE_0] if deadline == 0 else short)]
    if spec.get("suspend") or options.suspended:
        fields["suspend"] = True
    if spec.get("suspend"):
        maps.append(_kept("suspend", value=True))
        changes = [*changes, _SUSPENDED]
    return fields, maps, changes


def _limits(job: Mapping[str, Any], options: ImportOptions) -> _Part:
    limit, deadline = job.get("backoffLimit"), job.get("activeDeadlineSeconds")
    attempts = min((_BACKOFF_LIMIT if limit is None else limit) + 1, _MOST_ATTEMPTS)
    timeout = min(options.timeout_s if deadline is None else deadline, LONGEST_TIMEOUT_S)
    fields: dict[str, Any] = {
        "maxAttempts": attempts,
        "backoff": {"baseSeconds": _FIRST_PAUSE_S, "maxSeconds": _LONGEST_PAUSE_S},
        "timeoutSeconds": timeout,
    }
    maps = [
        Mapped(
            source=_field("backoffLimit", _BACKOFF_LIMIT if limit is None else limit),
            target=_field("maxAttempts", attempts),
        ),
        Mapped(
            source="" if deadline is None else _field("activeDeadlineSeconds", deadline),
            target=_field("timeoutSeconds", timeout),
        ),
    ]
    changes = [_ATTEMPTS, _ONE_DEADLINE if deadline is not None else _NO_DEADLINE.format(timeout=timeout)]
    if timeout > POOL_TIMEOUT_S:
        changes.append(_LONG_TIMEOUT)
    return fields, maps, changes


def _notes(metadata: Mapping[str, Any], job: Mapping[str, Any]) -> Iterator[str]:
    pod = _mapping(_mapping(job, "template"), "spec")
    yield _HISTORY
    if pod.get("restartPolicy") == "OnFailure":
        yield _ON_FAILURE
    if any((job.get(field) or 1) != 1 for field in ("completions", "parallelism")):
        yield _SEVERAL_PODS
    if job.get("suspend"):
        yield _QUEUED
    if job.get("podFailurePolicy"):
        yield _POD_FAILURE_POLICY
    if _mapping(metadata, "labels").get("app.kubernetes.io/managed-by") == "Helm":
        yield _HELM
    if metadata.get("ownerReferences"):
        yield _OWNED


# -- What cannot be imported -------------------------------------------------------------------------------------------


def _refusals(
    cron_job: Mapping[str, Any], metadata: Mapping[str, Any], spec: Mapping[str, Any], job: Mapping[str, Any]
) -> Iterator[str]:
    if cron_job.get("apiVersion") != API_VERSION:
        yield f"apiVersion is {_shown(cron_job.get('apiVersion'))}, which Kubernetes no longer has; write {API_VERSION}"
    if _mapping(metadata, "labels").get("app.kubernetes.io/part-of") == "wakeboard":
        yield "it is wakeboard's own and starts its workers; without it nothing would run"
    yield from _name_refusals(metadata)
    for place, value, kind in _typed_fields(spec, job):
        if value is not None and (not isinstance(value, kind) or (isinstance(value, bool) and kind is int)):
            yield f"{place} is {_shown(value)}, which is not {_KINDS[kind]}"
        elif isinstance(value, int) and value < 0:
            yield f"{place} is {value}, which is negative"
    if not spec.get("schedule"):
        yield "spec.schedule is missing"
    if (spec.get("concurrencyPolicy") or "Allow") not in _POLICIES:
        yield f"spec.concurrencyPolicy is {_shown(spec['concurrencyPolicy'])}, which is none of {', '.join(_POLICIES)}"
    yield from _job_refusals(job)
    queued = _mapping(_mapping(_mapping(spec, "jobTemplate"), "metadata"), "labels").get(_KUEUE)
    if job.get("suspend") and not queued:
        yield "spec.jobTemplate.spec.suspend is true: another program starts its Jobs, and a run would wait for ever"


def _name_refusals(metadata: Mapping[str, Any]) -> Iterator[str]:
    name = metadata.get("name")
    if not name and metadata.get("generateName"):
        yield "it has generateName and no name, so each `kubectl create` makes another CronJob; give it a name"
    elif not isinstance(name, str) or not name:
        yield "metadata.name is missing"
    elif len(name) > LONGEST_NAME:
        yield f"its name has {counted(len(name), 'character')}, and Kubernetes allows {LONGEST_NAME}"


def _typed_fields(spec: Mapping[str, Any], job: Mapping[str, Any]) -> Iterator[tuple[str, Any, type]]:
    for field, kind in _SPEC_FIELDS.items():
        yield f"spec.{field}", spec.get(field), kind
    for field, kind in _JOB_FIELDS.items():
        yield f"spec.jobTemplate.spec.{field}", job.get(field), kind


def _job_refusals(job: Mapping[str, Any]) -> Iterator[str]:
    pod = _mapping(_mapping(job, "template"), "spec")
    if not pod.get("containers"):
        yield "spec.jobTemplate.spec.template.spec has no containers"
    if pod.get("restartPolicy") not in ("Never", "OnFailure"):
        yield "restartPolicy is neither Never nor OnFailure, which Kubernetes refuses, too"
    if job.get("podFailurePolicy") and pod.get("restartPolicy") == "OnFailure":
        yield "podFailurePolicy needs restartPolicy: Never, and it is OnFailure; Kubernetes refuses it, too"
    if job.get("manualSelector") or job.get("selector"):
        yield "the job template has a selector, which Kubernetes refuses, too; remove selector and manualSelector"
    if job.get("managedBy") not in (None, "kubernetes.io/job-controller"):
        yield f"another controller runs its Jobs (managedBy: {_shown(job['managedBy'])})"


def _zone_and_expression(spec: Mapping[str, Any], options: ImportOptions) -> tuple[str, str]:
    """The zone in which the CronJob ticks, and its expression without a prefix. A prefix wins, as in Kubernetes."""
    schedule: str = spec["schedule"]
    zone, expression = zone_prefix(schedule)
    if zone is None:
        zone = spec.get("timeZone") or options.default_zone
    elif zone in {"", "Local"}:
        zone = "Etc/UTC" if zone == "" else options.default_zone
    if zone not in known_zones():
        raise InvalidSchedule(unknown_zone(f'its time zone "{zone[:64]}"'))
    return zone, expression


def _aligned(every_s: int, expression: str) -> str:
    """The cron expression that ticks in this interval. Raises InvalidSchedule if the clock has no such steps."""
    minutes, rest = divmod(every_s, 60)
    if not rest and minutes and 60 % minutes == 0:
        return f"*/{minutes} * * * *" if minutes not in {1, 60} else {1: "* * * * *", 60: "0 * * * *"}[minutes]
    hours, rest = divmod(every_s, 3600)
    if not rest and hours and 24 % hours == 0:
        return f"0 */{hours} * * *" if hours != 24 else "0 0 * * *"  # noqa: PLR2004 - hours of a day
    raise InvalidSchedule(
        f'schedule "{expression[:100]}" has no equal cron expression: its interval does not divide an hour or a day'
    )


def _mapping(value: Mapping[str, Any], key: str) -> dict[str, Any]:
    part = value.get(key)
    return cast("dict[str, Any]", part) if isinstance(part, dict) else {}


def _kept(name: str, value: object) -> Mapped:
    return Mapped(source=_field(name, value), target=_field(name, value))


def _field(name: str, value: object) -> str:
    return f"{name}: {json_text(value) if not isinstance(value, str) or not value.isalnum() else value}"


def _shown(value: object) -> str:
    text = json_text(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
