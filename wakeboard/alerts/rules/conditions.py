"""The conditions of alert rules: each is one entry of CONDITIONS, from which all else follows.

Its query is a file of the folder `sql/measure_alert/`, which begins with its name. No I/O, no clock.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from pydantic import Field
from pydantic.alias_generators import to_snake

from wakeboard.alerts.rules.fields import Duration, Times
from wakeboard.alerts.rules.links import figures, overview, runs, schedule_or, schedules
from wakeboard.text.durations import duration_text
from wakeboard.text.humanize import counted, lasted

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime

    from wakeboard.alerts.rules.links import Link, LinkTo

FAST_S: Final = 15.0
SLOW_S: Final = 60.0  # of conditions that read much, and that change slowly


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What a rule measured, and what its sentence says about the rule. `where`: its restriction, " (queue billing)"."""

    value: float
    limit: Any
    within: str
    where: str

    def count(self, noun: str) -> str:
        """The value as a number of things."""
        return counted(int(self.value), noun)


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertCondition:
    """What a rule can watch.

    `name`: its field in a file. `accepts`: the type of the field. `example`: a rule's fields, as a file has them;
    `fires_when`: what they mean, for the documentation. `threshold`: the value from which a rule with this limit fires.
    `sentence`: says what is wrong. `shown`: the value in its unit. `link`: the page that shows what is behind it.
    `within`: whether rules may have this field; a duration: what it is without. `interval_s`: between two evaluations.
    """

    name: str
    accepts: Any
    example: Mapping[str, Any]
    fires_when: str
    threshold: Callable[[Any], float] = float
    sentence: Callable[[Reading], str]
    shown: Callable[[float], str]
    link: LinkTo
    within: Literal["required", "optional", "unused"] | timedelta = "unused"
    needs_where: bool = False
    interval_s: float = FAST_S

    @property
    def field(self) -> str:
        """The name of its attribute."""
        return to_snake(self.name)


def _up_to(most: int) -> Any:
    return Annotated[int, Field(ge=1, le=most)]


def _any(_: object) -> float:
    return 1.0


def _count_of(noun: str) -> Callable[[float], str]:
    return lambda value: counted(int(value), noun)


def _lasted(value: float) -> str:
    return lasted(timedelta(seconds=value))


def _dead(found: Reading) -> str:
    verb = "became" if found.within else "is" if int(found.value) == 1 else "are"
    return f"{found.count('run')} {verb} dead{found.within}{found.where}"


CONDITIONS: Final = (
    AlertCondition(
        name="failures",
        accepts=_up_to(10_000),
        example={"failures": 10, "within": "60m"},
        fires_when="10 or more attempts failed, timed out or crashed in the last 60 minutes; it looks at the newest"
        " 10,000 attempts",
        sentence=lambda found: f"{found.count('attempt')} failed{found.within}{found.where}",
        shown=_count_of("attempt"),
        link=runs("failed,dead"),
        within="required",
    ),
    AlertCondition(
        name="dead",
        accepts=_up_to(10_000),
        example={"dead": 1},
        fires_when="one run or more is dead; with `within`, only those that became dead within this time count",
        sentence=_dead,
        shown=_count_of("run"),
        link=runs("dead"),
        within="optional",
    ),
    AlertCondition(
        name="late",
        accepts=Duration,
        example={"late": "5m"},
        fires_when="a due run has waited that long for a worker or for its limit key, or a tick was not enqueued;"
        " paused queues are not late",
        threshold=timedelta.total_seconds,
        sentence=lambda found: f"the oldest due run{found.where} has waited for {_lasted(found.value)}",
        shown=_lasted,
        link=schedule_or(runs("queued")),
    ),
    AlertCondition(
        name="noSuccessFor",
        accepts=Duration,
        example={"noSuccessFor": "26h", "where": {"schedule": "ops/backup-*"}},
        fires_when="a schedule that exists for longer has had no successful run in this time, and is neither suspended"
        " nor paused",
        threshold=_any,
        sentence=lambda found: (
            f"{found.count('schedule')}{found.where} had no successful run for {duration_text(found.limit)}"
        ),
        shown=_count_of("schedule"),
        link=schedules(),
        needs_where=True,
        interval_s=SLOW_S,
    ),
    AlertCondition(
        name="backlog",
        accepts=_up_to(100_000),
        example={"backlog": 1000},
        fires_when="1,000 or more due runs wait",
        sentence=lambda found: f"{found.count('due run')}{found.where} {'waits' if int(found.value) == 1 else 'wait'}",
        shown=_count_of("run"),
        link=runs("queued"),
    ),
    AlertCondition(
        name="durationOver",
        accepts=Times,
        example={"durationOver": "3 x p95"},
        fires_when="a run that runs now, or succeeded in the last 15 minutes (`within`), takes 3 times as long as 95 %"
        " of the runs of its job type in the last 7 days. p50, p90 and p99 work, too. Runs of less than a second, and"
        " job types with less than 20 successful runs, do not count; it looks at 40,000 runs at most",
        threshold=lambda usual: usual.times,
        sentence=lambda found: (
            f"a run{found.where} took {found.value:.1f} x the p{round(100 * found.limit.share)} of its job type"
        ),
        shown=lambda value: f"{value:.1f} x",
        link=figures,
        within=timedelta(minutes=15),
        interval_s=SLOW_S,
    ),
    AlertCondition(
        name="circuitOpen",
        accepts=_up_to(10_000),
        example={"circuitOpen": 1},
        fires_when="one schedule or more creates no runs because its runs died one after another"
        " (`spec.suspendAfterDead`)",
        sentence=lambda found: f"{found.count('schedule')}{found.where} stopped after dead runs",
        shown=_count_of("schedule"),
        link=schedules("circuit open"),
    ),
    AlertCondition(
        name="successMissed",
        accepts=_up_to(10_000),
        example={"successMissed": 1},
        fires_when="one schedule or more had no success within the time that it expects"
        " (`spec.expectSuccessWithinSeconds`). A file that has receivers and no such rule has one for all of them",
        sentence=lambda found: f"{found.count('schedule')}{found.where} had no success in time",
        shown=_count_of("schedule"),
        link=schedules(health="failing"),
    ),
    AlertCondition(
        name="databaseWentBack",
        accepts=_up_to(10_000),
        example={"databaseWentBack": 1},
        fires_when="the database went back in time, or may have (a failover to an asynchronous replica, a restore),"
        " and no user has acknowledged it (`wakeboard check --after-restore`). A file that has receivers and no such"
        " rule has one for all of them",
        sentence=lambda found: (
            f"{found.count('server change')} may have lost commits: see `wakeboard check --after-restore`"
        ),
        shown=_count_of("server change"),
        link=overview,
    ),
    AlertCondition(
        name="noWorker",
        accepts=Duration,
        example={"noWorker": "3m"},
        fires_when="a run (other than a delivery of an alert) has been due and no worker was seen for that long",
        threshold=timedelta.total_seconds,
        sentence=lambda found: f"runs are due{found.where}, and no worker was seen for {_lasted(found.value)}",
        shown=_lasted,
        link=runs("queued"),
    ),
)


def condition_in(definition: Mapping[str, object]) -> AlertCondition | None:
    """The condition of a rule as `definition_of` returns it. None: this release does not know it."""
    return next((condition for condition in CONDITIONS if condition.name in definition), None)


def page_behind(definition: Mapping[str, Any], opened_at: datetime) -> Link:
    """The path inside the board of what is behind an alert of the rule, and its parameters."""
    condition = condition_in(definition)
    return (condition.link if condition else runs())(definition, opened_at)
