"""The command `wakeboard audit`, the reason of every action, and payloads of replay and run-now."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from wakeboard.process.system_user import system_user

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.conftest import Cli
    from tests.cli.sample_store import SampleStore


def test_audit_lists_who_did_what_when_why_and_from_where(cli: Cli, sample: SampleStore):
    run = sample.enqueue()
    sample.fail(run, outcome="discarded")
    assert cli("audit").out == "there are no actions yet.\n"

    cli("retry", str(run), "--reason", "the bank is back")
    cli("limit", "smtp", "--at-once", "4")

    printed = cli("audit", "--json").json
    assert [row["action"] for row in printed] == ["set_limit", "retry"]
    assert {(row["actor"], row["source"]) for row in printed} == {(system_user(), "cli")}
    heading, limit, retried = cli("audit").cells
    assert heading == "AT (UTC) WHO FROM ACTION OF DETAILS REASON"
    assert limit.endswith(f"{system_user()} cli set-limit smtp default to 4")
    assert retried.endswith(f"{system_user()} cli retry run {run} queued, was dead the bank is back")


@pytest.mark.parametrize(
    "command",
    [
        ("retry", "1"),
        ("discard", "2"),
        ("cancel", "3"),
        ("replay", "4"),
        ("run-now", "weekly-report"),
        ("pause", "all"),
        ("resume", "queue", "mail"),
        ("limit", "smtp", "--at-once", "4"),
        ("confirm", "removal", "file:large"),
    ],
)
def test_every_action_takes_a_reason(cli: Cli, sample: SampleStore, command: tuple[str, ...]):
    sample.add_schedule("weekly-report")
    for _ in range(2):
        sample.fail(sample.enqueue(), outcome="discarded")
    waiting = sample.enqueue("other")
    sample.succeed(sample.enqueue())
    assert waiting == 3
    sample.sql("select wakeboard.request_removal('file:large', 'hash', 12)")
    sample.sql("select wakeboard.pause('queue:mail')")

    assert cli(*command, "--reason", "because").code == 0

    newest, *_ = cli("audit", "--json").json
    assert (newest["reason"], newest["source"]) == ("because", "cli")


def test_audit_of_a_run_or_a_schedule_lists_only_its_actions(cli: Cli, sample: SampleStore):
    sample.add_schedule("weekly-report")
    sample.add_schedule("tidy")
    other = sample.enqueue()
    cli("cancel", str(other))
    cli("run-now", "weekly-report")
    cli("run-now", "tidy")
    cli("pause", "schedule", "weekly-report")

    assert [row["action"] for row in cli("audit", str(other), "--json").json] == ["cancel"]
    of_schedule = cli("audit", "billing/weekly-report", "--json").json
    assert [row["action"] for row in of_schedule] == ["pause", "run_now"]
    assert [row["action"] for row in cli("audit", "--action", "run-now", "--json").json] == ["run_now", "run_now"]
    assert cli("audit", "--actor", "nobody").out == "no action matches.\n"
    assert len(cli("audit", "--since", "1h", "--json").json) == 4
    assert cli("audit", "--since", "2100-01-01T00:00Z", "--json").json == []
    assert "there is no schedule 'nothing'" in cli("audit", "nothing").err


def test_a_released_effect_is_named_by_its_key(cli: Cli, sample: SampleStore):
    run = sample.enqueue()
    sample.sql(
        "insert into wakeboard.job_forever_effects (key, first_run_uuid, run_id, lease_epoch, finished_at)"
        " values ('invoice:8', gen_random_uuid(), %s, 1, now())",
        run,
    )
    assert [row["key"] for row in cli("effects", "list", "--json").json] == ["invoice:8"]
    assert cli("effects", "release", "invoice:8", "--reason", "paid back").code == 0
    assert cli("effects", "list", "--json").json == []
    for key in ("invoice:8", ""):
        refused = cli("effects", "release", key, "--reason", "paid back")
        assert refused.code == 1
        assert f"the effect {key!r} is not released: no run has had an effect of this key" in refused.err
    assert f"release-effect invoice:8 of run {run}" in cli("audit").cells[1]


@pytest.mark.parametrize("given", ["json", "file"])
def test_replay_and_run_now_take_another_payload(cli: Cli, sample: SampleStore, tmp_path: Path, given: str):
    sample.add_schedule("weekly-report", payload={"n": 1})
    run = sample.enqueue("ping", {"n": 1})
    sample.succeed(run)
    (tmp_path / "payload.json").write_text('{"n": 2}')
    payload = '{"n": 2}' if given == "json" else f"@{tmp_path / 'payload.json'}"

    (replayed,) = cli("replay", str(run), "--payload", payload, "--json").json
    created = cli("run-now", "weekly-report", "--payload", payload, "--json").json

    for new in (replayed["new_id"], created["id"]):
        assert cli("run", str(new), "--json").json["payload"] == {"n": 2}


@pytest.mark.parametrize(
    ("payload", "problem"),
    [
        ("{", "the payload is not JSON"),
        ("3", "neither an object nor a list"),
        ("@missing.json", "the payload's file 'missing.json' cannot be read: No such file or directory."),
    ],
)
def test_an_invalid_payload_is_refused_before_anything_changes(
    cli: Cli, sample: SampleStore, payload: str, problem: str
):
    sample.add_schedule("weekly-report")
    run = sample.enqueue()
    sample.succeed(run)
    for command in (("replay", str(run)), ("run-now", "weekly-report")):
        refused = cli(*command, "--payload", payload)
        assert refused.code != 0
        assert problem in refused.err
    assert cli("audit").out == "there are no actions yet.\n"
