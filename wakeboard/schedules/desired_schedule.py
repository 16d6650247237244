"""A schedule as a file or a cluster declares it, and its row in job_definitions."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from wakeboard.schedules.rules.job_schedule import spec_hash
from wakeboard.schedules.rules.schedule_origin import origin_of, shown_labels
from wakeboard.ticks.catch_up import DEFAULT_LIMIT
from wakeboard.ticks.compiled_ticks import ticks_for
from wakeboard.ticks.zones import tzdata_version

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime

    from wakeboard.schedules.calls import KnownDefinition
    from wakeboard.schedules.rules.job_schedule import JobSchedule, JobScheduleSpec


@dataclass(frozen=True)
class DesiredSchedule:
    """One schedule as its source declares it.

    In a cluster `uid` and `generation` are those of the object. A file has neither: its uid is empty, its generation
    None, and each spec that differs from the stored one becomes the next generation. `origin` and `labels` are for
    users only.
    """

    namespace: str
    name: str
    spec: JobScheduleSpec
    uid: str = ""
    generation: int | None = None
    origin: str = ""
    labels: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def key(self) -> tuple[str, str]:
        """Namespace and name. Unique in a source."""
        return self.namespace, self.name

    @property
    def full_name(self) -> str:
        """`namespace/name`."""
        return f"{self.namespace}/{self.name}"

    @cached_property
    def spec_hash(self) -> str:
        """A hash of the meaning of the spec."""
        return spec_hash(self.spec)

    def generation_after(self, known: KnownDefinition | None) -> int:
        """The generation of this schedule, given the stored one."""
        if self.generation is not None:
            return self.generation
        if known is None:
            return 1
        return known.generation + (known.removed or known.spec_hash != self.spec_hash)

    def is_synced(self, known: KnownDefinition | None) -> bool:
        """Whether the stored schedule equals this one, uses the current zone data, and can compute its ticks."""
        return known is not None and (
            known.uid,
            known.generation,
            known.spec_hash,
            known.tzdata_version,
            known.removed,
            known.stalled,
            known.origin,
            known.labels,
        ) == (
            self.uid,
            self.generation_after(known),
            self.spec_hash,
            tzdata_version(),
            False,
            False,
            self.origin,
            self.labels,
        )


def desired_from_files(schedules: Iterable[JobSchedule]) -> list[DesiredSchedule]:
    """The desired schedules for manifests that were read from files."""
    return [
        DesiredSchedule(
            each.metadata.namespace,
            each.metadata.name,
            each.spec,
            origin=origin_of(each.metadata.labels, each.metadata.annotations),
            labels=shown_labels(each.metadata.labels),
        )
        for each in schedules
    ]


def definition_row(desired: DesiredSchedule, known: KnownDefinition | None, now: datetime) -> dict[str, Any]:
    """Returns the row of job_definitions for a schedule. This is the one place where a spec becomes columns.

    The first tick is after `now` and after the last tick of the stored schedule. A suspended schedule has none. Raises
    InvalidSchedule when its ticks cannot be computed.
    """
    spec = desired.spec
    compiled = spec.compiled_ticks(desired.full_name)
    return {
        "namespace": desired.namespace,
        "name": desired.name,
        "uid": desired.uid,
        "generation": desired.generation_after(known),
        "spec_hash": desired.spec_hash,
        "job_type": spec.job_type,
        "payload": spec.payload,
        "queue": spec.queue,
        "priority": spec.priority,
        "schedule": spec.timing,
        "starts_at": spec.starts_at,
        "ends_at": spec.ends_at,
        "after": [entry.model_dump(by_alias=True) for entry in spec.after or ()],
        "cron_fields": compiled,
        "time_zone": spec.time_zone,
        "dst_gap": spec.dst.gap,
        "dst_overlap": spec.dst.overlap,
        "jitter_s": spec.jitter_seconds,
        "concurrency_policy": spec.concurrency_policy,
        "limit_key": spec.limit_key,
        "catch_up": spec.catch_up.policy,
        "catch_up_limit": spec.catch_up.limit or DEFAULT_LIMIT,
        "starting_deadline_s": spec.starting_deadline_seconds,
        "max_attempts": spec.max_attempts,
        "backoff_strategy": spec.backoff.strategy.lower(),
        "backoff_base_s": spec.backoff.base_seconds,
        "backoff_cap_s": spec.backoff.max_seconds,
        "timeout_s": spec.timeout_seconds,
        "suspended": spec.suspend,
        "suspend_after_dead": spec.suspend_after_dead,
        "expect_success_within_s": spec.expect_success_within_seconds,
        "alert_after_missed": spec.alert_after_missed,
        "next_run_at": _first_tick(spec, compiled, max(now, known.last_tick_at) if known else now),
        "tzdata_version": tzdata_version(),
        "origin": desired.origin,
        "labels": dict(desired.labels),
    }


def _first_tick(spec: JobScheduleSpec, compiled: str | None, after: datetime) -> datetime | None:
    if compiled is None or spec.suspend:
        return None
    return ticks_for(compiled, spec.time_zone, spec.dst.gap, spec.dst.overlap).next_tick(after)
