"""Five workers schedule ticks at the same time: each tick becomes exactly one run."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

from tests.chaos.processes import Worker
from wakeboard.rules.cron_parser import parse_cron

if TYPE_CHECKING:
    from pathlib import Path

    from tests.chaos.processes import Watcher

SCHEDULES, MINUTES = 40, 30


def test_each_tick_becomes_one_run_with_many_schedulers_at_once(
    database: str, watcher: Watcher, tmp_path: Path
) -> None:
    watcher.do(
        "insert into wakeboard.job_definitions (source, namespace, name, spec_hash, job_type, schedule, cron_fields,"
        " catch_up, next_run_at)"
        " select 'file:chaos', 'default', 'job-' || n, '', 'quick', '* * * * *', %s, 'All',"
        " date_trunc('minute', now()) - make_interval(mins => %s) from generate_series(1, %s) as n",
        parse_cron("* * * * *", name="default/job").to_text(),
        MINUTES,
        SCHEDULES,
    )
    with ExitStack() as stack:
        for _ in range(5):
            stack.enter_context(Worker(database, tmp_path, "--forever"))
        watcher.wait(
            "select bool_and(next_run_at > now()) and not exists (select from wakeboard.job_runs where run_at <= now())"
            " from wakeboard.job_definitions"
        )
        ticks = watcher.rows(
            "select definition_id, count(*), count(distinct scheduled_for),"
            " (extract(epoch from max(scheduled_for) - min(scheduled_for)) / 60)::int"
            " from wakeboard.all_runs where trigger = 'tick' group by 1"
        )
    assert len(ticks) == SCHEDULES
    for _, made, distinct, minutes in ticks:
        assert made == distinct == minutes + 1  # no tick twice, none missing between the first and the last
        assert made >= MINUTES + 1
