"""Read-only queries of the calendar: how many schedules have each rule for their ticks, and which ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, LiteralString

from psycopg.rows import class_row, tuple_row

from wakeboard.store.statements import read
from wakeboard.ticks.tick_load import TickRule
from wakeboard.views.queries.schedule_list import SCHEDULES

if TYPE_CHECKING:
    from collections.abc import Sequence

    import psycopg

    from wakeboard.views.queries.schedule_selection import ScheduleFilter, Selection

_RULES: LiteralString = f"""
with schedule as ({SCHEDULES})
select state, cron_fields, time_zone, dst_gap, dst_overlap, count(*),
       bool_or(schedule !~ '^(every|at) ' and split_part(schedule, ' ', 1) !~ 'H|^[*]$') as has_fixed_minute
  from (select state, schedule, case when state = 'active' then cron_fields end as cron_fields,
               case when state = 'active' then time_zone end as time_zone,
               case when state = 'active' then dst_gap end as dst_gap,
               case when state = 'active' then dst_overlap end as dst_overlap
          from schedule
         where state <> 'active' or cron_fields is not null) as counted
 group by state, cron_fields, time_zone, dst_gap, dst_overlap
"""
_SCHEDULES_OF_RULES: LiteralString = f"""
with schedule as ({SCHEDULES})
select schedule.id, namespace, name, job_type, queue, schedule.schedule, cron_fields, time_zone, dst_gap, dst_overlap
  from schedule
  join unnest(%(cron_fields)s::text[], %(time_zones)s::text[], %(gaps)s::text[], %(overlaps)s::text[])
         as rule (cron_fields, time_zone, dst_gap, dst_overlap) using (cron_fields, time_zone, dst_gap, dst_overlap)
 where state = 'active'
       and (%(after_id)s::bigint is null
            or (namespace collate "C", name collate "C", id) > (%(after_namespace)s, %(after_name)s, %(after_id)s))
 order by namespace collate "C", name collate "C", id
 limit %(count)s
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedSchedule:
    """An active schedule with ticks in a cell of the calendar."""

    id: int
    namespace: str
    name: str
    job_type: str
    queue: str
    schedule: str
    cron_fields: str
    time_zone: str
    dst_gap: Literal["Skip", "RunAfter"]
    dst_overlap: Literal["First", "Both"]

    @property
    def rule(self) -> TickRule:
        """What determines its ticks."""
        return TickRule(self.cron_fields, self.time_zone, self.dst_gap, self.dst_overlap)


async def tick_rules(
    conn: psycopg.AsyncConnection[Any], wanted: ScheduleFilter, selection: Selection
) -> tuple[dict[TickRule, int], dict[str, int], frozenset[TickRule]]:
    """How many active schedules have each rule, how many are in each other state, and the rules with a fixed minute.

    An active schedule that runs after others has no rule, and is not counted. `wanted.state` and `wanted.health` do not
    count. Each schedule of a sample counts as many times as its share says. A rule has a fixed minute if the cron
    expression of a schedule could have `H` for its minute, and has not.
    """
    rules: dict[TickRule, int] = {}
    others: dict[str, int] = {}
    fixed: set[TickRule] = set()
    each = round(1 / selection.share)
    for state, *rule, schedules, has_fixed_minute in await read(
        conn, tuple_row, _RULES, wanted.values() | {"ids": selection.ids}
    ):
        if state == "active":
            rules[TickRule(*rule)] = schedules * each
            if has_fixed_minute:
                fixed.add(TickRule(*rule))
        else:
            others[state] = schedules * each
    return rules, others, frozenset(fixed)


async def schedules_of_rules(
    conn: psycopg.AsyncConnection[Any],
    wanted: ScheduleFilter,
    selection: Selection,
    rules: Sequence[TickRule],
    count: int,
    *,
    after: tuple[str, str, int] | None = None,
) -> list[PlannedSchedule]:
    """The first `count` selected active schedules with one of these rules, by name. `after`: namespace, name and id."""
    namespace, name, after_id = after or (None, None, None)
    values = wanted.values() | {
        "ids": selection.ids,
        "cron_fields": [rule.cron_fields for rule in rules],
        "time_zones": [rule.time_zone for rule in rules],
        "gaps": [rule.dst_gap for rule in rules],
        "overlaps": [rule.dst_overlap for rule in rules],
        "after_namespace": namespace,
        "after_name": name,
        "after_id": after_id,
        "count": count,
    }
    return await read(conn, class_row(PlannedSchedule), _SCHEDULES_OF_RULES, values)
