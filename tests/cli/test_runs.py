"""The command `wakeboard runs`: rows, filters, and messages for empty lists."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from textwrap import dedent
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.cli.conftest import Cli
    from tests.cli.sample_store import SampleStore


def test_runs_are_listed_newest_first_with_time_and_details_for_each_status(cli: Cli, sample: SampleStore):
    schedule = sample.add_schedule("weekly-report")
    sample.register_worker("report", "mail")
    succeeded = sample.enqueue("ping")
    dead = sample.run_now(schedule)
    failed = sample.enqueue("mail")
    cancelled = sample.enqueue("mail")
    running = sample.enqueue("mail", queue="default")
    sample.enqueue("mail", run_at=sample.value("select now() + interval '3 hours'"))
    sample.succeed(succeeded)
    sample.fail(dead, "the other side result 503", outcome="discarded")
    sample.fail(failed, "connection reset", delay_s=720.0)
    sample.sql("select wakeboard.cancel(%s)", [cancelled])
    epoch = sample.claim(running)
    sample.sql("select wakeboard.renew(77, 60, %s::bigint[], %s::bigint[], '{7200}', '{0.4}')", [running], [epoch])
    sample.backdate(dead, "2 hours")
    sample.backdate(cancelled, "5 minutes")
    sample.backdate(succeeded, "4 hours")

    result = cli("runs")

    assert (
        result.lines
        == dedent("""
        ID  STATUS     RUN OF                 WHEN             TRY  DETAILS
         6  queued     mail                   due in 3 h         -
         5  running    mail                   started 2 h ago  1/5  40 % done
         4  cancelled  mail                   5 min ago          -
         3  failed     mail                   again in 12 min  1/5  ValueError: connection reset
         2  dead       billing/weekly-report  2 h ago          1/5  ValueError: the other side result 503
         1  succeeded  ping                   4 h ago          1/5
        """)
        .strip("\n")
        .splitlines()
    )


def test_runs_can_be_filtered(cli: Cli, sample: SampleStore):
    weekly = sample.add_schedule("weekly-report")
    of_schedule, mail, old = sample.run_now(weekly), sample.enqueue("mail", queue="post"), sample.enqueue("ping")
    sample.succeed(old)
    sample.backdate(old, "3 hours")

    def ids(*words: str) -> list[int]:
        return [run["id"] for run in cli("runs", "--json", *words).json]

    assert ids() == [old, mail, of_schedule]
    assert ids("--status", "queued") == [mail, of_schedule]
    assert ids("--status", "succeeded", "--status", "queued") == [old, mail, of_schedule]
    assert ids("--schedule", "weekly-report") == [of_schedule]
    assert ids("--type", "mail") == [mail]
    assert ids("--queue", "post") == [mail]
    assert ids("--since", "2h") == [mail, of_schedule]
    assert ids("--since", "2020-01-01") == [old, mail, of_schedule]
    assert ids("--limit", "1") == [old]


def test_a_search_means_what_it_means_on_the_board(cli: Cli, sample: SampleStore):
    sample.register_worker("mail")
    urgent = sample.enqueue("mail", {"customer": 42, "token": "secret"}, priority=1, queue="default")
    failed, done = sample.enqueue("mail", {"customer": 7}), sample.enqueue("ping")
    sample.fail(failed)
    sample.succeed(done)

    def ids(*words: str) -> list[int]:
        return [run["id"] for run in cli("runs", "--json", *words).json]

    assert ids("type:mail", "payload.customer:42") == ids("priority:1") == [urgent]
    assert ids("worker:worker-*") == [done, failed]
    assert ids("attempts:1", "--type", "mail") == ids("status:failed -attempts:0") == [failed]
    wide = cli("runs", "-o", "wide", "priority:1").lines[1]
    assert '"customer": 42' in wide
    assert "secret" not in wide
    refused = cli("runs", "colour:red")
    assert (refused.code, refused.out) == (2, "")
    assert 'no qualifier "colour"' in refused.err


def test_a_watched_list_prints_a_run_again_when_its_status_changes(database: str, sample: SampleStore):
    run = sample.enqueue("ping")
    command = [str(Path(sys.executable).with_name("wakeboard")), "runs", "--watch", "--dsn", database]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as watching:
        assert watching.stdout
        seen = [watching.stdout.readline().split() for _ in range(2)]
        sample.succeed(run)
        seen.append(watching.stdout.readline().split())
        watching.send_signal(signal.SIGINT)
    assert [line[:2] for line in seen] == [["ID", "STATUS"], [str(run), "queued"], [str(run), "succeeded"]]


def test_consecutive_skipped_ticks_are_one_row(cli: Cli, sample: SampleStore):
    sample.add_schedule("clean-up", "* * * * *", due_in="-1 minute")
    sample.sql(
        "select wakeboard.enqueue_due_ticks(array[id], array[generation], array[next_run_at],"
        " array[next_run_at + interval '1 h'], array[next_run_at], array[null], '{}', '{}', array[id],"
        " array[next_run_at - interval '36 minutes'],"
        " array[next_run_at], array[37], array['CatchUpLatest']) from wakeboard.job_definitions"
    )

    sample.backdate(sample.value("select id from wakeboard.job_run_history"), "2 hours")

    assert (
        " ".join(cli("runs").lines[1].split()[1:])
        == "skipped billing/clean-up 2 h ago - it was missed, and a newer one ran, 37 ticks"
    )


@pytest.mark.parametrize("times", [("-infinity", "infinity"), ("0001-01-01Z", "9999-12-31 23:59Z")])
@pytest.mark.parametrize("zone", ["Pacific/Kiritimati", "Pacific/Midway"])
def test_runs_with_times_that_no_clock_shows_are_listed(
    cli: Cli, sample: SampleStore, times: tuple[str, str], zone: str
):
    """The functions store no such times; an owner of the database could."""
    live, past = sample.enqueue(), sample.enqueue()
    sample.succeed(past)
    for table in ("job_runs", "job_run_history"):
        sample.sql(f"update wakeboard.{table} set scheduled_for = '{times[0]}', created_at = '{times[1]}'")
    sample.sql("update wakeboard.job_runs set cancel_requested_at = 'infinity', start_before = '4000-01-01 BC'")

    assert {run["id"] for run in cli("runs", "--json").json} == {live, past}
    for command in (["runs"], ["run", live], ["run", past], ["explain", live], ["explain", past]):
        result = cli("--zone", zone, *map(str, command))
        assert (result.code, result.err) == (0, "")
