"""What people see of schedules and runs."""

from __future__ import annotations

from textwrap import dedent
from typing import TYPE_CHECKING

from rich.cells import cell_len

from wakeboard.cli.tables import Column, table

if TYPE_CHECKING:
    from tests.cli.conftest import Type
    from tests.cli.sample_store import SampleStore


def lines(text: str) -> list[str]:
    return dedent(text).strip("\n").splitlines()


def test_schedules_are_a_calm_table(type_command: Type, story: SampleStore):
    weekly = story.declare("weekly-report")
    story.declare("tidy", "*/5 * * * *", due_in="3 min", time_zone="Etc/UTC", suspended=True)
    story.declare("shop/on-call", None)
    flaky = story.declare("flaky", "@hourly", due_in="20 min", time_zone="Etc/UTC")
    story.succeed(fine := story.run_now(weekly))
    story.fail(story.run_now(flaky))
    story.fail(dead := story.run_now(flaky), outcome="discarded")
    story.run_now(flaky)
    story.long_ago(fine, "3 days")
    story.long_ago(dead, "2 hours")

    said = type_command("schedules")

    assert said.code == 0
    assert said.lines == lines("""
        SCHEDULE               WHEN                       NEXT       LAST                  RUNS
        billing/flaky          @hourly                    in 20 min  dead 2 h ago          1 dead, 1 failed, 1 queued
        billing/tidy           */5 * * * *                suspended  -
        billing/weekly-report  0 8 * * MON Europe/Lisbon  in 2 days  succeeded 3 days ago
        shop/on-call           -                          on demand  -
        """)


def test_runs_are_listed_newest_first_with_what_matters_in_each_state(type_command: Type, story: SampleStore):
    schedule = story.declare("weekly-report")
    story.works("report", "mail")
    succeeded = story.enqueue("ping")
    dead = story.run_now(schedule)
    failed = story.enqueue("mail")
    cancelled = story.enqueue("mail")
    running = story.enqueue("mail", queue="default")
    story.enqueue("mail", run_at=story.value("select now() + interval '3 hours'"))
    story.succeed(succeeded)
    story.fail(dead, "the other side said 503", outcome="discarded")
    story.fail(failed, "connection reset", delay_s=720.0)
    story.sql("select wakeboard.cancel(%s)", [cancelled])
    epoch = story.claim(running)
    story.sql("select wakeboard.renew(77, 60, %s::bigint[], %s::bigint[], '{7200}', '{0.4}')", [running], [epoch])
    story.long_ago(dead, "2 hours")
    story.long_ago(cancelled, "5 minutes")
    story.long_ago(succeeded, "4 hours")

    said = type_command("runs")

    assert said.lines == lines("""
        ID  STATUS     RUN OF                 WHEN             TRY  ABOUT
         6  queued     mail                   due in 3 h         -
         5  running    mail                   began 2 h ago    1/5  40% done
         4  cancelled  mail                   5 min ago          -
         3  failed     mail                   again in 12 min  1/5  ValueError: connection reset
         2  dead       billing/weekly-report  2 h ago          1/5  ValueError: the other side said 503
         1  succeeded  ping                   4 h ago          1/5
        """)


def test_runs_can_be_filtered(type_command: Type, story: SampleStore):
    weekly = story.declare("weekly-report")
    of_schedule, mail, old = story.run_now(weekly), story.enqueue("mail", queue="post"), story.enqueue("ping")
    story.succeed(old)
    story.long_ago(old, "3 hours")

    def ids(*words: str) -> list[int]:
        return [run["id"] for run in type_command("runs", "--json", *words).json]

    assert ids() == [old, mail, of_schedule]
    assert ids("--status", "queued") == [mail, of_schedule]
    assert ids("--status", "succeeded", "--status", "queued") == [old, mail, of_schedule]
    assert ids("--schedule", "weekly-report") == [of_schedule]
    assert ids("--type", "mail") == [mail]
    assert ids("--queue", "post") == [mail]
    assert ids("--since", "2h") == [mail, of_schedule]
    assert ids("--since", "2020-01-01") == [old, mail, of_schedule]
    assert ids("--limit", "1") == [old]


def test_a_discarded_run_is_no_longer_dead_to_people(type_command: Type, story: SampleStore):
    kept, given_up = story.enqueue(), story.enqueue()
    for run in (kept, given_up):
        story.fail(run, outcome="discarded")
    story.sql("select wakeboard.discard(%s)", [given_up])

    assert [run["id"] for run in type_command("runs", "--status", "dead", "--json").json] == [kept]
    assert [run["id"] for run in type_command("runs", "--status", "discarded", "--json").json] == [given_up]


def test_a_stretch_of_skipped_ticks_is_one_line(type_command: Type, story: SampleStore):
    story.declare("tidy", "* * * * *", due_in="-1 minute")
    story.sql(
        "select wakeboard.enqueue_due_ticks(array[id], array[generation], array[next_run_at],"
        " array[next_run_at + interval '1 h'], array[next_run_at], array[null], '{}', '{}', array[id],"
        " array[next_run_at - interval '36 minutes'],"
        " array[next_run_at], array[37], array['CatchUpLatest']) from wakeboard.job_definitions"
    )

    story.long_ago(story.value("select id from wakeboard.job_run_history"), "2 hours")

    assert (
        " ".join(type_command("runs").lines[1].split()[1:]) == "skipped billing/tidy 2 h ago - CatchUpLatest, 37 ticks"
    )


def test_a_removed_schedule_can_still_be_asked_for(type_command: Type, story: SampleStore):
    gone = story.declare("weekly-report")
    run = story.run_now(gone)
    story.fail(run, outcome="discarded")
    story.sql("select wakeboard.remove_definitions('file:test', %s::bigint[])", [gone])

    assert [row["id"] for row in type_command("runs", "--schedule", "weekly-report", "--json").json] == [run]
    assert type_command("run-now", "weekly-report").code == 1


def test_a_stalled_schedule_says_why(type_command: Type, story: SampleStore):
    story.declare("weekly-report")
    story.sql("update wakeboard.job_definitions set schedule_error = 'no such zone'")

    said = type_command("schedules")

    assert "stalled" in said.lines[1]
    assert said.lines[2] == "billing/weekly-report is stalled: no such zone"


def test_empty_lists_say_what_to_do_next(type_command: Type):
    assert type_command("schedules").out.startswith("no schedules yet. `wakeboard apply DIR`")
    assert type_command("runs").out.startswith("no runs yet. `wakeboard enqueue ping`")
    assert type_command("runs", "--type", "mail").out == "no run matches.\n"
    assert type_command("limit").out == "no limit keys are in use.\n"
    assert type_command("pause").out == "nothing is paused.\n"
    assert type_command("runs", "--json").json == []


def test_text_of_users_cannot_steer_the_terminal(type_command: Type, story: SampleStore):
    run = story.enqueue("mail")
    story.fail(run, "\x1b[31mred\x07 [bold]markup[/bold]\nnext line \u202eevil")

    said = type_command("runs")

    assert "\x1b" not in said.out
    assert "\u202e" not in said.out
    assert "[31mred\ufffd [bold]markup[/bold] next line" in said.lines[1]


def test_a_table_fits_its_terminal_and_counts_wide_letters_twice():
    columns = [Column("RUN OF", narrows=True), Column("TRY", right=True), Column("ABOUT", narrows=True)]
    rows = [["billing/日次レポートを送信する", "1/5", "接続がリセットされました" * 3], ["tidy", "-", "x"]]

    shown = [str(line) for line in table(columns, rows, 40)]

    assert all(cell_len(line) <= 40 for line in shown)
    assert shown[1].endswith("…")
    ends = {
        cell_len(line[: line.index(word) + len(word)]) for line, word in zip(shown, ("TRY", "1/5", "-"), strict=True)
    }
    assert len(ends) == 1
