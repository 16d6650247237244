"""The keys of --json are those that docs/cli.md lists."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tools.generate_docs import Answer, answers, cli_page, command_words, keys_of

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.conftest import Cli
    from tests.cli.sample_store import SampleStore

ARGUMENTS = {
    "new": ["new", "shop-jobs"],
    "plan": ["plan", "job.yaml", "job.yaml"],
    "apply": ["apply", "schedules"],
    "import": ["import", "crontab", "--crontab"],
    "schedules": ["schedules"],
    "schedule": ["schedule", "weekly-report"],
    "workers": ["workers"],
    "queues": ["queues"],
    "next": ["next", "@daily"],
    "runs": ["runs"],
    "run": ["run", "1"],
    "compare": ["compare", "1", "2"],
    "explain": ["explain", "1"],
    "logs": ["logs", "1"],
    "graph": ["graph"],
    "failures": ["failures"],
    "alerts": ["alerts"],
    "alerts check": ["alerts", "check", "alerts.yaml"],
    "alerts test": ["alerts", "test", "team", "--wait", "1"],
    "alerts silence": ["alerts", "silence", "dead", "--until-fixed"],
    "alerts unsilence": ["alerts", "unsilence", "dead"],
    "audit": ["audit"],
    "enqueue": ["enqueue", "ping"],
    "run-now": ["run-now", "weekly-report"],
    "backfill": ["backfill", "weekly-report", "--from", "2026-01-01", "--to", "2026-02-01"],
    "retry": ["retry", "1"],
    "cancel": ["cancel", "1"],
    "replay": ["replay", "2"],
    "discard": ["discard", "1"],
    "release": ["release", "1"],
    "pause": ["pause", "all"],
    "resume": ["resume", "all"],
    "limit": ["limit", "smtp", "--at-once", "2"],
    "confirm removal": ["confirm", "removal", "file:large"],
    "effects list": ["effects", "list"],
    "effects release": ["effects", "release", "invoice:812", "--reason", "paid back"],
    "check": ["check"],
    "migrate": ["migrate"],
    "version": ["version"],
}


def test_every_command_with_json_is_documented_and_tested():
    assert set(answers()) == {*ARGUMENTS, "conformance", "effects install"}
    without_json = {"board", "up", "worker"}
    assert {" ".join(words) for words in command_words()} - set(answers()) == without_json


@pytest.mark.parametrize("command", ["pause", "resume", "limit"])
def test_the_keys_of_a_list_stay(cli: Cli, sample: SampleStore, command: str):
    cli("pause", "all")
    cli("limit", "smtp", "--at-once", "2")

    (row,) = cli(command, "--json").json

    listed = answers()[command].listed
    assert listed is not None
    assert list(row) == keys_of(Answer(listed))


def test_every_list_that_a_command_prints_without_arguments_is_documented():
    page = cli_page()
    assert page.count("The JSON of the list: objects with these keys.") == 3
    assert "`range_begin`, `range_end`, `state`, `total`" in page
    assert "`kind`, `name`, `reason`, `paused_at`, `actor`, `until`." in page
    assert "`key`, `max_running`, `is_explicit`, `rate_count`, `rate_period_s`, `burst`, `next_start_s`, `runn" in page


@pytest.mark.parametrize("command", ARGUMENTS)
def test_the_keys_stay(cli: Cli, sample: SampleStore, tmp_path: Path, command: str):
    (tmp_path / "schedules").mkdir()
    (tmp_path / "crontab").write_text("@daily /bin/true\n")
    sample.add_schedule("weekly-report")
    sample.register_worker()
    sample.fail(sample.enqueue(), outcome="discarded")
    sample.succeed(sample.enqueue())
    sample.log(1, "said")
    sample.sql("select wakeboard.request_removal('file:large', 'hash', 12)")
    sample.sql("select wakeboard.set_limit('smtp', 4)")
    sample.sql(
        "insert into wakeboard.job_forever_effects (key, first_run_uuid, run_id, lease_epoch)"
        " values ('invoice:812', gen_random_uuid(), 7, 1)"
    )
    sample.add_alert(["send_mail: Timeout (3)"])
    (tmp_path / "job.yaml").write_text(
        "{apiVersion: wakeboard.dev/v1alpha1, kind: JobSchedule, metadata: {name: x}, spec: {jobType: x}}"
    )
    (tmp_path / "alerts.yaml").write_text(
        "{apiVersion: wakeboard.dev/v1alpha1, kind: AlertRules, spec: {rules: [{name: dead, dead: 1}]}}"
    )

    printed: Any = cli(*ARGUMENTS[command], "--json").json

    answer = answers()[command]
    assert isinstance(printed, list) == answer.many
    rows = printed if answer.many else [printed]
    assert rows
    for row in rows:
        assert list(row) == keys_of(answer)
