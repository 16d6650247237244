"""retry, cancel, replay, discard."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.cli.conftest import Type
    from tests.cli.sample_store import SampleStore


@pytest.fixture
def dead(story: SampleStore) -> list[int]:
    """Three dead runs: two mails and a ping."""
    runs = [story.enqueue("mail"), story.enqueue("mail"), story.enqueue("ping")]
    for run in runs:
        story.fail(run, outcome="discarded")
    return runs


def status(story: SampleStore, run: int) -> str:
    return story.value("select status::text from wakeboard.all_runs where id = %s", run)


def test_runs_are_decided_about_one_by_one(type_command: Type, story: SampleStore, dead: list[int]):
    retried, discarded, _ = dead

    assert type_command("retry", str(retried)).out == f"run {retried} is queued again, due now.\n"
    assert type_command("discard", str(discarded)).out == f"run {discarded} is discarded.\n"
    assert type_command("replay", str(discarded)).out == f"run {discarded} is replayed as run 4.\n"
    assert type_command("cancel", str(retried)).out == f"run {retried} is cancelled.\n"
    epoch = story.claim(4)
    assert epoch
    assert type_command("cancel", "4").out == "run 4 is asked to stop.\n"


def test_a_refusal_is_said_and_is_exit_code_1(type_command: Type, story: SampleStore, dead: list[int]):
    queued = story.enqueue()

    said = type_command("retry", str(queued), str(dead[0]), "999")

    assert said.code == 1
    assert said.out == f"run {dead[0]} is queued again, due now.\n"
    assert said.err.splitlines() == [
        f"wakeboard: run {queued}: refused: the run is queued.",
        "wakeboard: run 999: refused: there is no such run.",
    ]
    answers = type_command("discard", str(queued), str(dead[1]), "--json").json
    assert [(each["id"], each["refused"]) for each in answers] == [(dead[1], False), (queued, True)]


def test_runs_are_named_by_uuid_too(type_command: Type, story: SampleStore, dead: list[int]):
    uuid = str(story.value("select uuid from wakeboard.job_runs where id = %s", dead[0]))

    assert type_command("retry", uuid).code == 0
    assert status(story, dead[0]) == "queued"


def test_all_that_fit_are_discarded_with_a_yes(type_command: Type, story: SampleStore, dead: list[int]):
    said = type_command("discard", "--all-dead", "--type", "mail", "--yes")

    assert said.code == 0
    assert [status(story, run) for run in dead] == ["dead", "dead", "dead"]
    assert [row[0] for row in story.sql("select id from wakeboard.job_runs")] == [dead[2]]
    assert type_command("discard", "--all-dead", "--type", "mail", "--yes").out == "no run matches; nothing was done.\n"


@pytest.mark.parametrize(("answer", "code", "left"), [("y\n", 0, 0), ("n\n", 1, 3)])
def test_a_person_is_asked_before_many_are_changed(
    type_command: Type,
    story: SampleStore,
    dead: list[int],
    monkeypatch: pytest.MonkeyPatch,
    answer: str,
    code: int,
    left: int,
):
    terminal = io.StringIO(answer)
    monkeypatch.setattr(terminal, "isatty", lambda: True)
    monkeypatch.setattr("sys.stdin", terminal)

    said = type_command("retry", "--all-dead")

    assert said.code == code
    assert "Retry 3 runs?" in said.err
    assert "2 dead runs of job type mail\n1 dead run of job type ping\n" in said.err
    assert all(f" {run}  dead " in said.err for run in dead)
    assert story.value("select count(*) from wakeboard.job_runs where status = 'dead'") == left


def test_without_a_terminal_nobody_is_asked_and_nothing_done(type_command: Type, story: SampleStore, dead: list[int]):
    said = type_command("discard", "--all-dead")

    assert said.code == 2
    assert "add --yes" in said.err
    assert status(story, dead[0]) == "dead"


def test_a_dry_run_shows_what_would_be_changed_and_changes_nothing(
    type_command: Type, story: SampleStore, dead: list[int]
):
    weekly = story.run_now(story.declare("weekly-report"))
    story.fail(weekly, outcome="discarded")

    said = type_command("discard", "--all-dead", "--dry-run")

    assert said.code == 0
    assert said.lines[:3] == [
        "2 dead runs of job type mail",
        "1 dead run of billing/weekly-report, job type report",
        "1 dead run of job type ping",
    ]
    assert [line.split()[0] for line in said.lines[4:-1]] == [str(run) for run in (weekly, *reversed(dead))]
    assert said.lines[-1] == "would discard 4 runs; nothing was changed."
    rows = type_command("discard", "--all-dead", "--type", "ping", "--dry-run", "--json").json
    assert [(row["id"], row["status"], row["job_type"]) for row in rows] == [(dead[2], "dead", "ping")]
    assert [status(story, run) for run in dead] == ["dead", "dead", "dead"]


def test_a_dry_run_of_many_shows_a_sample_and_the_counts(type_command: Type, story: SampleStore):
    story.sql("insert into wakeboard.job_runs (job_type) select 'mail' from generate_series(1, 1500)")

    said = type_command("cancel", "--all-queued", "--dry-run")

    assert said.lines[0] == "1,500 queued runs of job type mail"
    assert said.lines[-2:] == ["… and 1,490 other runs", "would cancel 1,500 runs; nothing was changed."]
    assert len(said.lines) == 14
    assert story.value("select count(*) from wakeboard.job_runs") == 1500


def test_a_dry_run_shows_what_would_be_refused(type_command: Type, story: SampleStore, dead: list[int]):
    queued = story.enqueue()

    said = type_command("retry", str(queued), str(dead[0]), "999", "--dry-run")

    assert said.code == 1
    assert said.lines[-1] == "would retry 1 run; nothing was changed."
    assert said.err.splitlines() == [
        f"wakeboard: run {queued} would be refused: it is queued.",
        "wakeboard: run 999 would be refused: there is no such run.",
    ]


@pytest.mark.parametrize("state", ["queued", "running", "failed", "dead", "succeeded", "cancelled", "discarded"])
@pytest.mark.parametrize("verb", ["retry", "cancel", "replay", "discard"])
def test_a_dry_run_refuses_what_the_store_refuses(type_command: Type, story: SampleStore, verb: str, state: str):
    run = story.in_state(state)

    foretold = type_command(verb, str(run), "--dry-run").code

    assert status(story, run) == ("dead" if state == "discarded" else state)
    assert type_command(verb, str(run)).code == foretold


def test_what_is_meant_must_be_said_in_one_way(type_command: Type):
    for words in (
        ["retry"],
        ["retry", "--type", "mail"],
        ["retry", "1", "--all-dead"],
        ["discard", "1", "--queue", "x"],
    ):
        said = type_command(*words)
        assert said.code == 2
        assert "--all-dead" in said.err


def test_every_move_has_its_own_choice_of_states(type_command: Type, story: SampleStore):
    queued, failed, running, done = (story.enqueue("mail") for _ in range(4))
    story.fail(failed)
    story.claim(running)
    story.succeed(done)

    assert len(type_command("retry", "--all-failed", "--yes", "--json").json) == 1
    assert [each["id"] for each in type_command("replay", "--all-succeeded", "--yes", "--json").json] == [done]
    cancelled = type_command("cancel", "--all-queued", "--all-failed", "--all-running", "--yes", "--json").json
    assert {each["id"]: each["answer"] for each in cancelled} == {
        queued: "cancelled", failed: "cancelled", running: "requested", done + 1: "cancelled",
    }  # fmt: skip


def test_many_are_summed_up(type_command: Type, story: SampleStore):
    story.sql("insert into wakeboard.job_runs (job_type) select 'mail' from generate_series(1, 2500)")

    said = type_command("cancel", "--all-queued", "--yes")

    assert said.lines[-1] == "… 2,500 runs in all, 0 refused."
    assert len(said.lines) == 21
    assert story.value("select count(*) from wakeboard.job_runs") == 0
