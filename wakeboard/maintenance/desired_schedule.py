"""What was declared, by files or in a cluster, and how it stands in a row of the board."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from wakeboard.rules.cron_parser import parse_cron
from wakeboard.rules.dst_ticks import TickSchedule
from wakeboard.rules.job_schedule import spec_hash
from wakeboard.rules.zones import tzdata_version

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from wakeboard.rules.compiled_cron import CronFields
    from wakeboard.rules.job_schedule import JobSchedule, JobScheduleSpec
    from wakeboard.store.maintenance_api import KnownDefinition


@dataclass(frozen=True)
class DesiredSchedule:
    """One schedule as its source declares it.

    In a cluster `uid` and `generation` are the object's. A file has no uid and counts no generations (None): each spec
    that differs from the one on the board is the next generation.
    """

    namespace: str
    name: str
    spec: JobScheduleSpec
    uid: str = ""
    generation: int | None = None

    @property
    def key(self) -> tuple[str, str]:
        """Namespace and name, which are unique in a source."""
        return self.namespace, self.name

    @property
    def full_name(self) -> str:
        """`namespace/name`."""
        return f"{self.namespace}/{self.name}"

    @cached_property
    def spec_hash(self) -> str:
        """A hash of what the spec means."""
        return spec_hash(self.spec)

    def generation_after(self, known: KnownDefinition | None) -> int:
        """The generation that this declaration has, or gets, on a board that knows `known`."""
        if self.generation is not None:
            return self.generation
        if known is None:
            return 1
        return known.generation + (known.removed or known.spec_hash != self.spec_hash)

    def is_on_store(self, known: KnownDefinition | None) -> bool:
        """Whether the board knows just this, computed with today's zone data, and can compute its ticks."""
        return known is not None and (
            known.uid,
            known.generation,
            known.spec_hash,
            known.tzdata_version,
            known.removed,
            known.stalled,
        ) == (self.uid, self.generation_after(known), self.spec_hash, tzdata_version(), False, False)


def declared_in_files(schedules: Iterable[JobSchedule]) -> list[DesiredSchedule]:
    """Schedules that were read from files."""
    return [DesiredSchedule(each.metadata.namespace, each.metadata.name, each.spec) for each in schedules]


def definition_row(declared: DesiredSchedule, known: KnownDefinition | None, now: datetime) -> dict[str, Any]:
    """The row of job_definitions that says what `declared` says: the one place where a spec becomes columns.

    Its first tick comes after `now`, and after the last tick that the board knows of; a suspended one has none. Raises
    InvalidSchedule when its ticks cannot be computed.
    """
    spec = declared.spec
    fields = parse_cron(spec.schedule, name=declared.full_name) if spec.schedule else None
    return {
        "namespace": declared.namespace,
        "name": declared.name,
        "uid": declared.uid,
        "generation": declared.generation_after(known),
        "spec_hash": declared.spec_hash,
        "job_type": spec.job_type,
        "payload": spec.payload,
        "queue": spec.queue,
        "priority": spec.priority,
        "schedule": spec.schedule,
        "cron_fields": fields.to_text() if fields else None,
        "time_zone": spec.time_zone,
        "dst_gap": spec.dst.gap,
        "dst_overlap": spec.dst.overlap,
        "jitter_s": spec.jitter_seconds,
        "concurrency_policy": spec.concurrency_policy,
        "limit_key": spec.limit_key,
        "catch_up": spec.catch_up.policy,
        "catch_up_limit": spec.catch_up.limit or 100,
        "starting_deadline_s": spec.starting_deadline_seconds,
        "max_attempts": spec.max_attempts,
        "backoff_strategy": spec.backoff.strategy.lower(),
        "backoff_base_s": spec.backoff.base_seconds,
        "backoff_cap_s": spec.backoff.max_seconds,
        "timeout_s": spec.timeout_seconds,
        "suspended": spec.suspend,
        "next_run_at": _first_tick(spec, fields, max(now, known.last_tick_at) if known else now),
        "tzdata_version": tzdata_version(),
    }


def _first_tick(spec: JobScheduleSpec, fields: CronFields | None, after: datetime) -> datetime | None:
    if fields is None or spec.suspend:
        return None
    return TickSchedule(fields, spec.time_zone, spec.dst.gap, spec.dst.overlap).next_tick(after)
