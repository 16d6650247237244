"""What `wakeboard import` makes of one CronJob or one line of a crontab: a JobSchedule, and what differs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from wakeboard.errors import InvalidSchedule
from wakeboard.schedules.rules.job_schedule import API_VERSION, load_job_schedule
from wakeboard.ticks.cron_parser import parse_cron
from wakeboard.ticks.dst_ticks import DstTicks

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from wakeboard.imports.rules.kubernetes_cron import KubernetesCron
    from wakeboard.ticks.compiled_cron import CronFields
    from wakeboard.ticks.dst_ticks import Gap, Overlap

_LONGEST_SCHEDULE: Final = 100  # characters
_COMPARED_MINUTES: Final = 2 * 366 * 1440  # two years have every clock change of a zone
_ALL: Final = {60: (1 << 60) - 1, 24: (1 << 24) - 1, 31: (1 << 32) - 2, 12: (1 << 13) - 2, 7: (1 << 7) - 1}  # by size
_RUN: Final = 3  # as many consecutive values become a range


@dataclass(frozen=True, slots=True, kw_only=True)
class Mapped:
    """One field of the source and what it became, both as text."""

    source: str
    target: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedSchedule:
    """A JobSchedule that does what the source did.

    `namespace` None: the source names none. `changes`: a sentence for each difference in meaning. `cron` and `zone`:
    when the source is due; None: at a random time. `command`: for a line of a crontab, what the workers must allow in
    WAKEBOARD_COMMANDS. `labels` and `annotations`: those of users.
    """

    namespace: str | None
    name: str
    spec: dict[str, Any]
    maps: tuple[Mapped, ...]
    changes: tuple[str, ...]
    cron: KubernetesCron | None
    zone: str
    command: dict[str, Any] | None = None
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    annotations: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def full_name(self) -> str:
        """`namespace/name`; the namespace is `default` if the source names none."""
        return f"{self.namespace or 'default'}/{self.name}"

    def document(self) -> dict[str, Any]:
        """The JobSchedule as it is written."""
        place = {"namespace": self.namespace} if self.namespace else {}
        names = {"labels": dict(self.labels), "annotations": dict(self.annotations)}
        return {
            "apiVersion": API_VERSION,
            "kind": "JobSchedule",
            "metadata": {"name": self.name, **place, **{key: value for key, value in names.items() if value}},
            "spec": self.spec,
        }

    def checked(self) -> ImportedSchedule:
        """Itself, if the loader of files accepts the document. Raises InvalidSchedule."""
        load_job_schedule(self.document(), lambda _: "the JobSchedule")
        return self

    def ticks(self) -> DstTicks | None:
        """The ticks of the JobSchedule; None if it has no cron expression."""
        schedule = load_job_schedule(self.document(), self.full_name)
        fields, dst = schedule.cron_fields, schedule.spec.dst
        return DstTicks(fields, schedule.spec.time_zone, dst.gap, dst.overlap) if fields else None


def equal_expression(text: str, cron: KubernetesCron) -> str:
    """A JobSchedule's expression that matches the same minutes and days: `text` itself if it does.

    Raises InvalidSchedule if there is none, or none that comes due.
    """
    plain = " ".join(text.split())
    for candidate in (plain, plain.replace("?", "*"), _expression_of(cron)):
        try:
            if _same(parse_cron(candidate, name=""), cron) and len(candidate) <= _LONGEST_SCHEDULE:
                return candidate
        except InvalidSchedule:
            continue
    parse_cron(_expression_of(cron), name="")  # raises if it is never due
    raise InvalidSchedule(f'schedule "{text[:_LONGEST_SCHEDULE]}" has no equal JobSchedule of at most 100 characters')


def clock_changes_matter(fields: CronFields, zone: str, now: datetime, gap: Gap, overlap: Overlap) -> bool:
    """Whether these rules give other ticks than the defaults within two years."""
    begin = int(now.timestamp()) // 60 * 60
    end = begin + _COMPARED_MINUTES * 60
    kept, usual = DstTicks(fields, zone, gap, overlap), DstTicks(fields, zone, "RunAfter", "First")
    return kept.minutes(begin, end) != usual.minutes(begin, end)


def _same(fields: CronFields, cron: KubernetesCron) -> bool:
    if fields.nth_weekdays or fields.last_day:
        return False
    masks = (fields.minutes, fields.hours, fields.days, fields.months, fields.weekdays)
    every_day = cron.days == _ALL[31] and cron.weekdays == _ALL[7]
    return masks == (cron.minutes, cron.hours, cron.days, cron.months, cron.weekdays) and (
        every_day or fields.either_day != cron.both_days
    )


def _expression_of(cron: KubernetesCron) -> str:
    """The masks as a cron expression; a full field is a star where both days must match."""
    days = _listed(cron.days, 31, star=cron.both_days)
    weekdays = _listed(cron.weekdays, 7, star=cron.both_days)
    return " ".join([_listed(cron.minutes, 60), _listed(cron.hours, 24), days, _listed(cron.months, 12), weekdays])


def _listed(mask: int, size: int, *, star: bool = True) -> str:
    if star and mask == _ALL[size]:
        return "*"
    values = [value for value in range(64) if mask >> value & 1]
    parts: list[str] = []
    while values:
        length = next(at for at in range(1, len(values) + 1) if at == len(values) or values[at] != values[0] + at)
        run, values = values[:length], values[length:]
        parts += [f"{run[0]}-{run[-1]}"] if length >= _RUN else map(str, run)
    return ",".join(parts)
