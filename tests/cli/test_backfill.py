"""The command `wakeboard backfill`: declares, lists, watches, pauses, resumes and cancels backfills."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.cli.conftest import Cli
    from tests.cli.sample_store import SampleStore

JANUARY = ("--from", "2026-01-01", "--to", "2026-02-01")


def close_day(sample: SampleStore, schedule: str | None = "0 2 * * *", **columns: str) -> int:
    return sample.add_schedule("close-day", schedule, **columns)


def test_a_month_of_daily_ticks_is_declared_and_listed(cli: Cli, sample: SampleStore):
    close_day(sample)
    result = cli("backfill", "billing/close-day", *JANUARY, "--at-once", "2", "--reason", "the bank was closed")
    assert result.out == (
        "backfill 1: 31 ticks of billing/close-day. `wakeboard backfill 1 --watch` shows how far it is.\n"
    )
    assert sample.value("select count(*) from wakeboard.job_runs where trigger = 'backfill'") == 31
    (row,) = [line for line in cli("runs", "-n", "40").lines if "tick 2026-01-03" in line]
    assert "tick of 2026-01-03" in cli("run", row.split()[0]).out
    assert (
        cli("backfill")
        .cells[1]
        .startswith("1 billing/close-day 2026-01-01 00:00 2026-02-01 00:00 running 0 of 31 done ")
    )
    (row,) = cli("backfill", "close-day", "--json").json
    assert (row["at_once"], row["again"], row["reason"], row["queued"]) == (2, False, "the bank was closed", 31)
    assert cli("backfill", "1", "--json").json == row


def test_a_dry_run_shows_the_ticks_and_changes_nothing(cli: Cli, sample: SampleStore):
    close_day(sample)
    cli("backfill", "close-day", "--from", "2026-01-03", "--to", "2026-01-05")
    result = cli("backfill", "close-day", *JANUARY, "--dry-run")
    assert result.cells[:3] == [
        "31 ticks: 29 have not run, 2 have an unfinished run",
        "TICK STATE BACKFILL",
        "Thu 2026-01-01 02:00 +00:00 has not run runs",
    ]
    assert result.cells[4].endswith("has an unfinished run left alone")
    assert result.cells[-2:] == [
        "… and 21 other ticks",
        "would run 29 ticks of billing/close-day; nothing was changed.",
    ]
    assert sample.value("select count(*) from wakeboard.job_runs") == 2
    printed = cli("backfill", "close-day", *JANUARY, "--dry-run", "--json").json
    assert (printed["runs"], printed["found"], len(printed["ticks"])) == (29, {"new": 29, "unfinished": 2}, 31)
    assert printed["ticks"][0] == {"tick": "2026-01-01T02:00:00.000Z", "found": "new", "runs": True}


def test_ticks_that_have_run_need_again(cli: Cli, sample: SampleStore):
    close_day(sample)
    cli("backfill", "close-day", "--from", "2026-01-01", "--to", "2026-01-03")
    sample.sql("select wakeboard.claim_limited(77, 60, '{default}', '{report}', '{backfill:1}', 1)")
    sample.sql("select wakeboard.complete(77, '{1}', array[lease_epoch]) from wakeboard.job_runs where id = 1")
    result = cli("backfill", "close-day", "--from", "2026-01-01", "--to", "2026-01-03")
    assert result.code == 1
    assert result.err == (
        "wakeboard: no tick of billing/close-day is left to run: 1 has run, 1 has an unfinished run;"
        " add --again to run the ticks that have run.\n"
    )
    result = cli("backfill", "close-day", "--from", "2026-01-01", "--to", "2026-01-03", "--again")
    assert result.out.startswith("backfill 2: 1 tick of billing/close-day. Left alone: 1 has an unfinished run.")


def test_a_backfill_is_paused_resumed_and_cancelled(cli: Cli, sample: SampleStore):
    close_day(sample)
    cli("backfill", "close-day", *JANUARY)
    assert cli("backfill", "1", "--pause", "--reason", "why").out == "backfill 1 is paused.\n"
    assert cli("backfill", "1", "--pause").err == "wakeboard: backfill 1 is not changed: it is paused.\n"
    assert cli("backfill", "1", "--json").json["state"] == "paused"
    assert cli("backfill", "1", "--resume", "--json").json == {"id": 1, "changed": True}
    assert cli("backfill", "1", "--cancel").out == "backfill 1 is cancelled: 31 runs cancelled.\n"
    assert cli("backfill", "1", "--cancel").err == "wakeboard: backfill 1 is not changed: it is cancelled.\n"
    rows = cli("audit", "--limit", "99", "--json").json
    assert [row["action"] for row in rows if not row["run_id"]] == [
        "cancel_backfill",
        "resume",
        "pause",
        "create_backfill",
    ]
    assert "create-backfill backfill 1 of billing/close-day 31 runs" in cli("audit", "--limit", "99").cells[-1]


def test_more_than_a_thousand_runs_need_yes_without_a_terminal(cli: Cli, sample: SampleStore):
    close_day(sample, "*/10 * * * *")
    result = cli("backfill", "close-day", *JANUARY)
    assert result.code == 2
    assert result.err.startswith("wakeboard: there is no terminal for the confirmation of 4,464 runs: add --yes, or")
    assert sample.value("select count(*) from wakeboard.backfills") == 0
    assert cli("backfill", "close-day", *JANUARY, "--yes").out.startswith("backfill 1: 4,464 ticks")


@pytest.mark.parametrize(("answer", "code", "total"), [("y\n", 0, 1), ("n\n", 1, 0)])
def test_more_than_a_thousand_runs_are_declared_only_after_confirmation(
    cli: Cli, sample: SampleStore, monkeypatch: pytest.MonkeyPatch, answer: str, code: int, total: int
):
    close_day(sample, "*/10 * * * *")
    terminal = io.StringIO(answer)
    monkeypatch.setattr(terminal, "isatty", lambda: True)
    monkeypatch.setattr("sys.stdin", terminal)
    result = cli("backfill", "close-day", *JANUARY)
    assert result.code == code
    assert "4,464 ticks: 4,464 have not run\n" in result.err
    assert "Run 4,464 ticks of billing/close-day?" in result.err
    assert sample.value("select count(*) from wakeboard.backfills") == total


BAD: dict[tuple[str, ...], str] = {
    ("--from", "2026-02-01", "--to", "2026-01-01"): "the range ends before it begins",
    ("--from", "2026-01-01", "--to", "2026-01-01"): "is empty, because its end is not part of it; write a later end",
    ("--from", "1969-12-31", "--to", "2026-01-01"): '"1969-12-31" is before 1970; write a time from 1970-01-01 UTC on',
    ("--from", "2999-01-01", "--to", "2999-02-01"): "the range begins in the future",
    ("--from", "january", "--to", "2026-01-01"): '"january" is neither a date nor a time; write for example 2026-01-01',
    ("--from", "2026-01-01T03:00", "--to", "2026-01-01T04:00"): "has no tick from",
}


@pytest.mark.parametrize("arguments", BAD)
def test_a_bad_range_gets_a_sentence(cli: Cli, sample: SampleStore, arguments: tuple[str, ...]):
    close_day(sample)
    result = cli("backfill", "close-day", *arguments)
    assert result.code in {1, 2}
    assert BAD[arguments] in result.err
    assert result.err.count("\n") == 1


@pytest.mark.parametrize(
    "arguments",
    [
        ("close-day", "--from", "2026-01-01"),
        JANUARY,
        ("1", *JANUARY),
        ("close-day", "--pause"),
        ("--watch",),
        ("1", "--pause", "--resume"),
        ("close-day", "--again"),
        ("close-day", *JANUARY, "--at-once", "0"),
    ],
)
def test_options_that_do_not_fit_are_refused(cli: Cli, sample: SampleStore, arguments: tuple[str, ...]):
    close_day(sample)
    result = cli("backfill", *arguments)
    assert (result.code, result.out) == (2, "")
