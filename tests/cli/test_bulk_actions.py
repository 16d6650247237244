"""The commands `wakeboard retry`, `cancel`, `replay` and `discard`."""

from __future__ import annotations

import io
from itertools import product
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.cli.conftest import Cli
    from tests.cli.sample_store import SampleStore


@pytest.fixture
def dead(sample: SampleStore) -> list[int]:
    """Three dead runs: two mails and a ping."""
    runs = [sample.enqueue("mail"), sample.enqueue("mail"), sample.enqueue("ping")]
    for run in runs:
        sample.fail(run, outcome="discarded")
    return runs


def status(sample: SampleStore, run: int) -> str:
    return sample.value("select status::text from wakeboard.all_runs where id = %s", run)


def test_each_action_changes_the_named_run(cli: Cli, sample: SampleStore, dead: list[int]):
    retried, discarded, _ = dead

    assert cli("retry", str(retried)).out == f"run {retried} is queued again, due now.\n"
    assert cli("discard", str(discarded)).out == f"run {discarded} is discarded.\n"
    assert cli("replay", str(discarded)).out == f"run {discarded} is replayed as run 4.\n"
    assert cli("cancel", str(retried)).out == f"run {retried} is cancelled.\n"
    sample.claim(4)
    assert cli("cancel", "4").out == "run 4 was asked to stop.\n"


def test_a_refused_run_is_an_error_and_exit_code_1(cli: Cli, sample: SampleStore, dead: list[int]):
    queued = sample.enqueue()

    result = cli("retry", str(queued), str(dead[0]), "999")

    assert result.code == 1
    assert result.out == f"run {dead[0]} is queued again, due now.\n"
    assert result.err.splitlines() == [
        f"wakeboard: run {queued}: refused: the run is queued.",
        "wakeboard: run 999: refused: there is no such run.",
    ]
    answers = cli("discard", str(queued), str(dead[1]), "--json").json
    assert [(each["id"], each["refused"]) for each in answers] == [(dead[1], False), (queued, True)]


def test_all_matching_runs_are_discarded_with_yes(cli: Cli, sample: SampleStore, dead: list[int]):
    result = cli("discard", "--all-dead", "--type", "mail", "--yes")

    assert result.code == 0
    assert [status(sample, run) for run in dead] == ["dead", "dead", "dead"]
    assert [row[0] for row in sample.sql("select id from wakeboard.job_runs")] == [dead[2]]
    assert cli("discard", "--all-dead", "--type", "mail", "--yes").out == "no run matches; nothing was changed.\n"


@pytest.mark.parametrize(("answer", "code", "left"), [("y\n", 0, 0), ("n\n", 1, 3)])
def test_selected_runs_are_changed_only_after_confirmation(
    cli: Cli, sample: SampleStore, dead: list[int], monkeypatch: pytest.MonkeyPatch, answer: str, code: int, left: int
):
    terminal = io.StringIO(answer)
    monkeypatch.setattr(terminal, "isatty", lambda: True)
    monkeypatch.setattr("sys.stdin", terminal)

    result = cli("retry", "--all-dead")

    assert result.code == code
    assert "Retry 3 runs?" in result.err
    assert "2 dead runs of job type mail\n1 dead run of job type ping\n" in result.err
    assert all(f" {run}  dead " in result.err for run in dead)
    assert sample.value("select count(*) from wakeboard.job_runs where status = 'dead'") == left


def test_without_a_terminal_selected_runs_need_yes(cli: Cli, sample: SampleStore, dead: list[int]):
    result = cli("discard", "--all-dead")

    assert result.code == 2
    assert "add --yes" in result.err
    assert status(sample, dead[0]) == "dead"


def test_a_dry_run_lists_the_runs_and_changes_nothing(cli: Cli, sample: SampleStore, dead: list[int]):
    weekly = sample.run_now(sample.add_schedule("weekly-report"))
    sample.fail(weekly, outcome="discarded")

    result = cli("discard", "--all-dead", "--dry-run")

    assert result.code == 0
    assert result.lines[:3] == [
        "2 dead runs of job type mail",
        "1 dead run of billing/weekly-report, job type report",
        "1 dead run of job type ping",
    ]
    assert [line.split()[0] for line in result.lines[4:-1]] == [str(run) for run in (weekly, *reversed(dead))]
    assert result.lines[-1] == "would discard 4 runs; nothing was changed."
    rows = cli("discard", "--all-dead", "--type", "ping", "--dry-run", "--json").json
    assert [(row["id"], row["status"], row["job_type"]) for row in rows] == [(dead[2], "dead", "ping")]
    assert [status(sample, run) for run in dead] == ["dead", "dead", "dead"]


def test_a_dry_run_of_many_runs_shows_counts_and_a_sample(cli: Cli, sample: SampleStore):
    sample.sql("insert into wakeboard.job_runs (job_type) select 'mail' from generate_series(1, 1500)")

    result = cli("cancel", "--all-queued", "--dry-run")

    assert result.lines[0] == "1,500 queued runs of job type mail"
    assert result.lines[-2:] == ["… and 1,490 other runs", "would cancel 1,500 runs; nothing was changed."]
    assert len(result.lines) == 14
    assert sample.value("select count(*) from wakeboard.job_runs") == 1500


STATES = ("queued", "running", "failed", "dead", "succeeded", "cancelled", "discarded")


def test_a_dry_run_refuses_what_the_store_refuses(cli: Cli, sample: SampleStore):
    for verb, state in product(("retry", "cancel", "replay", "discard"), STATES):
        run = sample.run_with_status(state)

        predicted = cli(verb, str(run), "--dry-run").code

        assert status(sample, run) == ("dead" if state == "discarded" else state), (verb, state)
        assert cli(verb, str(run)).code == predicted, (verb, state)


def test_runs_are_selected_either_by_name_or_by_filter(cli: Cli):
    for words in (
        ["retry"],
        ["retry", "--type", "mail"],
        ["retry", "1", "--all-dead"],
        ["discard", "1", "--queue", "x"],
    ):
        result = cli(*words)
        assert result.code == 2
        assert "--all-dead" in result.err


def test_each_action_has_options_for_its_statuses(cli: Cli, sample: SampleStore):
    queued, failed, running, done = (sample.enqueue("mail") for _ in range(4))
    sample.fail(failed)
    sample.claim(running)
    sample.succeed(done)

    assert len(cli("retry", "--all-failed", "--yes", "--json").json) == 1
    assert [each["id"] for each in cli("replay", "--all-succeeded", "--yes", "--json").json] == [done]
    cancelled = cli("cancel", "--all-queued", "--all-failed", "--all-running", "--yes", "--json").json
    assert {each["id"]: each["answer"] for each in cancelled} == {
        queued: "cancelled", failed: "cancelled", running: "requested", done + 1: "cancelled",
    }  # fmt: skip
