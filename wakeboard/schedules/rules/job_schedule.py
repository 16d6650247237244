"""The JobSchedule resource: its fields, defaults, bounds and their documentation.

The custom resource definition is generated from these models, so they use only what a structural schema supports: plain
types, bounds, enums, nested objects. An optional field is absent or has a value; null means absent. Validators check
what a schema cannot (a range that runs backwards, an unknown time zone), for resources in the cluster and for files.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Final, Literal, Self, cast

from pydantic import BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from wakeboard.declared.model import Declared
from wakeboard.declared.validation_messages import Place, problems_of, refusal
from wakeboard.errors import InvalidSchedule
from wakeboard.schedules.rules.builtin_payloads import payload_problem
from wakeboard.schedules.rules.field_types import (  # noqa: TC001 - pydantic reads them when it builds the classes
    CronExpression,
    Interval,
    JobType,
    LimitKey,
    Moment,
    Payload,
    QueueName,
    ZoneName,
)
from wakeboard.text.canonical_json import canonical_json
from wakeboard.text.name_patterns import LABEL, RESERVED, RESERVED_IN_WORDS, SUBDOMAIN
from wakeboard.text.sanitize import shortened
from wakeboard.ticks.catch_up import DEFAULT_LIMIT, CatchUpPolicy
from wakeboard.ticks.compiled_ticks import compile_ticks, ticks_for
from wakeboard.ticks.cron_parser import parse_cron

if TYPE_CHECKING:
    from wakeboard.ticks.compiled_cron import CronFields

API_VERSION: Final = "wakeboard.dev/v1alpha1"

_DAY: Final = 86_400  # seconds
_LONGEST: Final = 31 * _DAY  # the longest duration that the database accepts
_YEAR: Final = 365 * _DAY

OWN_TICKS: Final = "the ticks of schedule, every, at or after, which are absent"


class CatchUp(Declared):
    """What becomes of the due ticks after an outage or a pause: when the oldest of them is over five minutes late.

    A shorter delay loses no tick, for example that of a pod that starts a minute late.
    """

    policy: CatchUpPolicy = Field(
        default="Latest",
        description="Which of the due ticks run: only the newest (Latest), the newest `limit` (All), or none (Skip). "
        "With Skip, the newest one still runs if it is at most five minutes late, unless the next one follows within "
        "five minutes. Those that do not run are recorded as skipped.",
    )
    limit: Annotated[int, Field(ge=1, le=10_000)] | None = Field(
        default=None,
        description=f"With policy All: how many of the due ticks run at most. The default is {DEFAULT_LIMIT}.",
        examples=[DEFAULT_LIMIT],
    )

    @model_validator(mode="after")
    def _only_all_has_a_limit(self) -> Self:
        if self.limit is not None and self.policy != "All":
            raise refusal(
                f"catchUp.limit is {self.limit}, but only All has a limit; write policy: All, or leave it out"
            )
        return self


class Dst(Declared):
    """What clock changes do to fixed hours; a wildcard hour (`*`, `*/2`, `H/6`) follows real time instead."""

    gap: Literal["Skip", "RunAfter"] = Field(
        default="RunAfter",
        description="When the clock jumps over the time of a tick: drop that tick (Skip), or run at the first instant "
        "after the jump (RunAfter).",
    )
    overlap: Literal["First", "Both"] = Field(
        default="First",
        description="When the clock goes back and the time of a tick comes twice: run the first time (First) or both "
        "times (Both).",
    )


class Backoff(Declared):
    """The pause before a failed run is tried again; each is shortened at random by up to a half, to spread retries."""

    strategy: Literal["Exponential", "Fixed"] = Field(
        default="Exponential",
        description="Exponential: the pause doubles with each attempt, from baseSeconds up to maxSeconds. "
        "Fixed: it is always baseSeconds.",
    )
    base_seconds: int = Field(
        default=10, ge=1, le=_LONGEST, description="The pause after the first failure, in seconds."
    )
    max_seconds: int = Field(default=3600, ge=1, le=_LONGEST, description="The longest pause, in seconds.")

    @model_validator(mode="after")
    def _the_longest_is_not_below_the_first(self) -> Self:
        if self.max_seconds < self.base_seconds:
            raise refusal(
                f"backoff.maxSeconds is {self.max_seconds}, below baseSeconds {self.base_seconds}; "
                f"write for example maxSeconds: {self.base_seconds}"
            )
        return self


def _check_namespace_of_parent(name: object) -> object:
    if isinstance(name, str) and "/" in name:
        raise refusal(
            f'schedule is "{shortened(name, 130)}"; a schedule runs only after schedules of its own namespace: write'
            f" the name of one without the namespace, for example {name.rpartition('/')[2][:63] or 'extract'}"
        )
    return name


class Dependency(Declared):
    """A schedule that this one runs after, in the same namespace."""

    schedule: Annotated[str, Field(max_length=63, pattern=SUBDOMAIN), BeforeValidator(_check_namespace_of_parent)] = (
        Field(description="The name of the schedule.", examples=["extract"])
    )
    outcome: Literal["Succeeded", "Ended"] = Field(
        default="Succeeded",
        description="Which end of its run counts: only a success (Succeeded), or also that it is dead, cancelled or "
        "discarded (Ended). A tick that was skipped has no run, and counts for neither.",
    )
    ticks: Literal["Same", "All"] = Field(
        default="Same",
        description="Which of its ticks count: the same tick (Same), or each of its ticks since the tick before, "
        "such as the 24 hourly ticks of a day (All).",
    )


class JobScheduleSpec(Declared):
    """What to run, when, and what to do when that goes wrong. Only jobType is required."""

    job_type: JobType = Field(
        description="The name of the handler that runs it. Built in are ping, http, command and job;"
        " no other handler has these names.",
        examples=["send_weekly_report"],
    )
    schedule: CronExpression | None = Field(
        default=None,
        description="When it is due, as five cron fields (minute, hour, day of the month, month, day of the week) or "
        "@hourly, @daily, @weekly, @monthly, @yearly. L is the last day, FRI#2 the second Friday, L5 the last Friday; "
        "H is a value of its own for each schedule, which spreads load. When both the day of the month and the day "
        "of the week are restricted, either is enough. Absent: only on demand.",
        examples=["0 8 * * MON"],
    )
    every: Interval | None = Field(
        default=None,
        description="Instead of schedule: it is due at this interval of real time, 1s to 366d. Its ticks are counted"
        " from startsAt, or from the beginning of 1970 (UTC): no restart, edit or clock change moves them."
        " Workers that a CronJob wakes execute its runs at their next wake, so an interval below a minute is for a pool"
        " that stays.",
        examples=["90m"],
    )
    at: Moment | None = Field(
        default=None,
        description="Instead of schedule: it is due once, at this time; never, if it has passed at the creation.",
        examples=["2026-12-01T08:00:00Z"],
    )
    starts_at: Moment | None = Field(
        default=None,
        description="It has no ticks before this time. It needs schedule or every.",
        examples=["2026-12-01T00:00:00Z"],
    )
    ends_at: Moment | None = Field(
        default=None,
        description="It has no ticks after this time. It needs schedule or every.",
        examples=["2027-12-01T00:00:00Z"],
    )
    after: Annotated[list[Dependency], Field(max_length=20)] | None = Field(
        default=None,
        description="Instead of schedule: it runs after these schedules of its namespace. When their runs of a tick "
        "have succeeded, a run of the same tick is created. A dead run blocks it until a retry succeeds.",
        examples=[[{"schedule": "extract"}]],
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["schedule"]},
    )
    time_zone: ZoneName = Field(
        default="Etc/UTC", description="The IANA time zone of the schedule.", examples=["Europe/Lisbon"]
    )
    payload: Payload = Field(
        default_factory=dict,
        description="What the handler gets, at most 64 KiB: pass ids, not blobs. Null equals absent, and integers "
        "beyond 2^53 must be written as strings.",
        examples=[{"segment": "active"}],
    )
    queue: QueueName = Field(
        default="default", description="The queue that runs wait in. Workers serve named queues; usually one per image."
    )
    priority: int = Field(
        default=3,
        ge=1,
        le=5,
        description="Which due runs go first within a queue: 5 before 4 before ... 1. One start in twenty goes to the "
        "run that has been due for longest, so that no run waits forever.",
    )
    suspend: bool = Field(default=False, description="Enqueue no runs by schedule. Existing runs are not changed.")
    concurrency_policy: Literal["Allow", "Forbid", "Replace", "Queue"] = Field(
        default="Allow",
        description="What happens when a run is due and an earlier one is unfinished: both run (Allow), the new one is "
        "skipped (Forbid), the earlier one is cancelled (Replace), or the new one waits (Queue). With all but Allow no "
        "two of its runs are executed at once, whatever created them.",
    )
    limit_key: LimitKey | None = Field(
        default=None,
        description="Runs with the same key, of any schedule, share a limit on how many run at once and how often they "
        "start: 1 at once unless `wakeboard limit` says otherwise. A concurrencyPolicy applies in addition.",
        examples=["billing-api"],
    )
    catch_up: CatchUp = Field(default=CatchUp())
    starting_deadline_seconds: Annotated[int, Field(ge=1, le=_YEAR)] | None = Field(
        default=None,
        description="A run that has not started this many seconds after its tick is skipped. Retries are not affected. "
        "Absent: no deadline.",
        examples=[3600],
    )
    dst: Dst = Field(default=Dst())
    jitter_seconds: int = Field(
        default=0, ge=0, le=_DAY, description="Runs start up to this many seconds after their tick, spread at random."
    )
    max_attempts: int = Field(
        default=5, ge=1, le=1000, description="How often a run is tried before it is dead. A dead run waits for a user."
    )
    backoff: Backoff = Field(default=Backoff())
    timeout_seconds: int = Field(
        default=600,
        ge=1,
        le=_LONGEST,
        description="Maximum seconds of one attempt, from the start of its handler. A pool of workers claims only runs"
        " with at most its maxTimeoutSeconds, 3600 unless set.",
    )

    suspend_after_dead: Annotated[int, Field(ge=1, le=100)] | None = Field(
        default=None,
        description="After this many dead runs of its ticks in a row it creates no more. The first tick after a pause "
        "runs as a probe; the pause doubles from 1 minute to 1 hour. A run that succeeds, or `wakeboard resume`, ends "
        "this. Runs that a user or an application requests are not affected. It needs schedule, every, at or after. "
        "Absent: never.",
        examples=[3],
    )
    expect_success_within_seconds: Annotated[int, Field(ge=1, le=_LONGEST)] | None = Field(
        default=None,
        description="A tick whose run has not succeeded this many seconds after it has missed this: the schedule is"
        " not Healthy until a tick succeeds, and the alert successMissed opens if it has receivers. The time counts"
        " from when the run was created, if that was later. "
        "Ticks that create no run, such as skipped ones, and backfills do not count. It needs schedule, every, at or "
        "after. Absent: nothing is expected.",
        examples=[3600],
    )
    alert_after_missed: Annotated[int, Field(ge=1, le=100)] | None = Field(
        default=None,
        description="So many ticks in a row must miss expectSuccessWithinSeconds before the schedule has missed it. "
        "Absent: 1.",
        examples=[3],
    )

    @property
    def timing(self) -> str | None:
        """What decides its ticks as `compile_ticks` reads it: a cron expression, "every 90m", "at …"; None without."""
        if self.every is not None:
            return f"every {self.every}"
        return self.schedule if self.at is None else f"at {self.at}"

    def compiled_ticks(self, name: str) -> str | None:
        """What decides its ticks, compiled; None when it has none of its own. `name`: namespace/name, for `H`."""
        if self.timing is None:
            return None
        first, last = (datetime.fromisoformat(each) if each else None for each in (self.starts_at, self.ends_at))
        return compile_ticks(self.timing, name=name, starts_at=first, ends_at=last)

    @model_validator(mode="after")
    def _its_ticks_come_from_one_field(self) -> Self:
        given = [name for name in ("schedule", "every", "at", "after") if getattr(self, name) is not None]
        if len(given) > 1:
            raise refusal(
                f"spec.{given[-1]} and spec.{given[0]} exclude each other, since its ticks come from one; write only"
                " one of them"
            )
        return self

    @model_validator(mode="after")
    def _bounds_are_of_ticks(self) -> Self:
        first, last = self.starts_at, self.ends_at
        if (first or last) and self.schedule is None and self.every is None:
            bound = "startsAt" if first else "endsAt"
            raise refusal(f"spec.{bound} bounds the ticks of schedule or every, which are absent; write one of them")
        if first and last and datetime.fromisoformat(last) < datetime.fromisoformat(first):
            raise refusal(f"spec.endsAt {last} is before startsAt {first}; write a later endsAt")
        return self

    @model_validator(mode="after")
    def _after_says_when(self) -> Self:
        if self.after is None:
            return self
        if not self.after:
            raise refusal("spec.after is empty; write for example after: [{schedule: extract}], or leave it out")
        if all(entry.ticks == "All" for entry in self.after):
            raise refusal(
                "spec.after has only entries with ticks: All, so none says when it runs; write ticks: Same for one"
            )
        names = [entry.schedule for entry in self.after]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice:
            raise refusal(f"spec.after names {twice} twice; write each name once")
        return self

    @model_validator(mode="after")
    def _dead_runs_are_of_its_own_ticks(self) -> Self:
        if self.suspend_after_dead is not None and self.timing is None and self.after is None:
            raise refusal(f"spec.suspendAfterDead stops {OWN_TICKS}; write one of them, or leave suspendAfterDead out")
        return self

    @model_validator(mode="after")
    def _success_is_expected_of_its_own_ticks(self) -> Self:
        if self.expect_success_within_seconds is None:
            if self.alert_after_missed is not None:
                raise refusal(
                    "spec.alertAfterMissed counts ticks that miss expectSuccessWithinSeconds, which is absent; write"
                    " it, for example expectSuccessWithinSeconds: 3600"
                )
        elif self.timing is None and self.after is None:
            raise refusal(
                f"spec.expectSuccessWithinSeconds counts from {OWN_TICKS}; write one of them, or leave"
                " expectSuccessWithinSeconds out"
            )
        return self

    @model_validator(mode="after")
    def _job_type_is_not_of_the_product(self) -> Self:
        if self.job_type.startswith(RESERVED):
            raise refusal(f"spec.jobType is {self.job_type}; {RESERVED_IN_WORDS}")
        return self

    @model_validator(mode="after")
    def _payload_fits_a_built_in_job_type(self) -> Self:
        if problem := payload_problem(self.job_type, self.payload):
            raise refusal(f"spec.payload does not fit the built-in job type {self.job_type}: {problem}")
        return self

    @model_validator(mode="after")
    def _jitter_leaves_time_to_start(self) -> Self:
        deadline = self.starting_deadline_seconds
        if deadline is not None and self.jitter_seconds >= deadline:
            raise refusal(
                f"spec.jitterSeconds is {self.jitter_seconds}, not below startingDeadlineSeconds {deadline}, so runs "
                "would be skipped before they may start; write for example jitterSeconds: 0"
            )
        return self


class Metadata(Declared):
    """The part of Kubernetes' metadata that wakeboard reads; other fields are ignored."""

    model_config = ConfigDict(extra="ignore")

    name: Annotated[str, Field(max_length=63, pattern=SUBDOMAIN)] = Field(
        description="The name of the schedule, unique in its namespace.", examples=["weekly-report"]
    )
    namespace: Annotated[str, Field(max_length=63, pattern=LABEL)] = Field(
        default="default", description="The namespace.", examples=["billing"]
    )
    labels: dict[str, str] = Field(
        default_factory=dict, description="Labels. The board shows ten of them and filters by them."
    )
    annotations: dict[str, str] = Field(default_factory=dict, description="Annotations.")


class JobSchedule(Declared):
    """A job that runs by schedule or on demand.

    Workers execute its runs and record their outcomes; the status shows them.
    """

    api_version: Literal["wakeboard.dev/v1alpha1"]
    kind: Literal["JobSchedule"]
    metadata: Metadata = Field(examples=[{"name": "weekly-report"}])
    spec: JobScheduleSpec = Field(examples=[{"jobType": "ping", "schedule": "0 8 * * MON"}])

    @property
    def full_name(self) -> str:
        """`namespace/name`."""
        return f"{self.metadata.namespace}/{self.metadata.name}"

    @property
    def cron_fields(self) -> CronFields | None:
        """The compiled cron expression; None when it runs only on demand."""
        return None if self.spec.schedule is None else parse_cron(self.spec.schedule, name=self.full_name)

    @model_validator(mode="after")
    def _is_not_after_itself(self) -> Self:
        if any(entry.schedule == self.metadata.name for entry in self.spec.after or ()):
            raise refusal(
                f"spec.after names {self.metadata.name}, which is this schedule itself; write the name of another one"
            )
        return self

    @model_validator(mode="after")
    def _comes_with_this_name(self) -> Self:
        """`H` may pick a day that never comes for one name and not for another."""
        try:
            compiled = self.spec.compiled_ticks(self.full_name)
        except InvalidSchedule as error:
            raise refusal(f"spec.{error}") from None
        if compiled is not None and self.spec.ends_at is not None:
            ticks = ticks_for(compiled, self.spec.time_zone, self.spec.dst.gap, self.spec.dst.overlap)
            if ticks.next_tick(datetime(1970, 1, 1, tzinfo=UTC)) is None:
                raise refusal(f"spec.endsAt is {self.spec.ends_at}, before its first tick; write a later one")
        return self


def load_job_schedule(document: object, where: str | Callable[[Place], str]) -> JobSchedule:
    """The schedule that `document` declares, as read from YAML or from the API server; its payload is canonical.

    `where` begins each sentence of an error: the name of the file, or a function that returns the line of
    a part of the document. A `status` is ignored. Raises InvalidSchedule with a sentence for each problem.
    """
    if not isinstance(document, Mapping):
        raise InvalidSchedule(f'{_at(where, ())}: this is not a JobSchedule; begin with "apiVersion: {API_VERSION}"')
    declared = {key: value for key, value in cast("Mapping[str, object]", document).items() if key != "status"}
    try:
        return JobSchedule.model_validate(declared)
    except ValidationError as error:
        problems = problems_of(error, JobSchedule.model_json_schema())
        raise InvalidSchedule(*(f"{_at(where, place)}: {sentence}" for place, sentence in problems)) from None


def _at(where: str | Callable[[Place], str], place: Place) -> str:
    return where if isinstance(where, str) else where(place)


def spec_hash(spec: JobScheduleSpec) -> str:
    """A hash of what `spec` means: equal for equal schedules, however they are written."""
    meaning = spec.model_dump(by_alias=True, exclude_none=True)
    return hashlib.sha256(canonical_json(meaning).encode()).hexdigest()
