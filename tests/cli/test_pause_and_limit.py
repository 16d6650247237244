"""The commands `wakeboard pause`, `wakeboard resume` and `wakeboard limit`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wakeboard.process.system_user import system_user
from wakeboard.views.queries import listings

if TYPE_CHECKING:
    import pytest

    from tests.cli.conftest import Cli
    from tests.cli.sample_store import SampleStore


def test_pauses_are_listed_until_they_are_resumed(cli: Cli, sample: SampleStore):
    weekly = sample.add_schedule("weekly-report")
    sample.enqueue("mail", queue="post")

    assert cli("pause", "all", "--reason", "upgrade").out == "everything is paused.\n"
    assert cli("pause", "queue", "post").err == ""
    assert cli("pause", "schedule", "weekly-report").out == "schedule billing/weekly-report is paused.\n"
    assert cli("pause", "all").out == "everything was already paused.\n"

    sample.sql("update wakeboard.pauses set paused_at = now() - interval '2 hours'")
    assert cli("pause").cells == [
        "PAUSED SINCE ENDS BY REASON",
        f"all 2 h ago - {system_user()} upgrade",
        f"queue post 2 h ago - {system_user()}",
        f"schedule billing/weekly-report 2 h ago - {system_user()}",
    ]
    assert cli("schedules", "--json").json[0]["state"] == "paused"

    assert cli("resume", "all", "--json").json == {"scope": "all", "changed": True}
    assert cli("resume", "all").out == "there is no pause of everything; `wakeboard pause` lists what is paused.\n"
    assert cli("resume", "schedule", "weekly-report", "--json").json["scope"] == f"schedule:{weekly}"


def test_a_resume_says_what_the_schedule_stays(cli: Cli, sample: SampleStore):
    definition = sample.add_schedule("weekly-report")
    resume = "resume", "schedule", "weekly-report"
    label = "schedule billing/weekly-report"
    for change, state in (("suspended = true", "suspended"), ("suspended = false, schedule_error = 'odd'", "stalled")):
        cli("pause", "schedule", "weekly-report")
        sample.sql(f"update wakeboard.job_definitions set {change} where id = %s", definition)
        assert cli(*resume).out == f"{label} is resumed. It stays {state}.\n"
        assert cli(*resume).out == f"{label} was not paused. It stays {state}.\n"
    assert cli("next", "weekly-report").lines[0].endswith(" It is stalled: odd")
    sample.sql("update wakeboard.job_definitions set schedule_error = null where id = %s", definition)
    cli("pause", "schedule", "weekly-report")
    assert cli(*resume).out == f"{label} is resumed.\n"


def test_the_pause_of_a_removed_schedule_is_not_listed_and_ends(cli: Cli, sample: SampleStore):
    gone = sample.add_schedule("gone")
    sample.add_schedule("there")
    for name in ("gone", "there"):
        cli("pause", "schedule", name)
    sample.sql("update wakeboard.job_definitions set removed_at = now() where id = %s", gone)

    assert [row["name"] for row in cli("pause", "--json").json] == ["billing/there"]
    assert "billing/gone" not in cli("check").out
    assert cli("resume", "schedule", "gone").out == "schedule billing/gone is resumed. It stays removed.\n"
    assert sample.value("select count(*) from wakeboard.pauses") == 1


def test_a_pause_with_a_duration_ends_by_itself(cli: Cli, sample: SampleStore):
    weekly = sample.add_schedule("weekly-report")
    for words in (["all"], ["queue", "post"], ["schedule", "weekly-report"]):
        assert cli("pause", *words, "--for", "2h").out.endswith(" is paused for 2h.\n")
    assert all(" in 2 h " in line for line in cli("pause").cells[1:])
    assert "until" in cli("explain", "weekly-report").out
    assert sample.value("select wakeboard.end_pauses()") == 0

    sample.sql("update wakeboard.pauses set until = now() where scope <> 'all'")

    assert sample.value("select wakeboard.end_pauses()") == 2
    assert [row["kind"] for row in cli("pause", "--json").json] == ["all"]
    ended = "select actor, reason from wakeboard.audit_log where action = 'resume' and definition_id = %s"
    assert sample.sql(ended.replace("%s", str(weekly))) == [("wakeboard", "its time is over")]
    assert cli("pause", "all", "--for", "400d").code == 2


def test_a_table_lists_the_first_pauses_and_json_all(cli: Cli, sample: SampleStore, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(listings, "MOST_NAMES", 2)
    for name in ("a", "b"):
        sample.add_schedule(name)
        cli("pause", "schedule", name)
    cli("pause", "queue", "post")

    assert cli("pause").lines[1:] == [
        *(line for line in cli("pause").lines if "queue post" in line or "billing/a" in line),
        "… and more schedules: --json lists all.",
    ]
    assert [row["name"] for row in cli("pause", "--json").json] == ["post", "billing/a", "billing/b"]
    assert "post" in [row["queue"] for row in cli("queues", "--json").json]


def test_pause_takes_one_kind_and_one_name(cli: Cli):
    for words in (["all", "x"], ["queue"], ["schedule"], ["planet", "x"]):
        assert cli("pause", *words).code == 2
    assert cli("pause", "schedule", "x").code == 1


def test_limit_default_restores_the_default(cli: Cli):
    cli("limit", "billing-api", "--at-once", "3")
    assert cli("limit", "billing-api", "--default").out == "at most 1 run of billing-api at once.\n"
    assert cli("limit", "billing-api").lines[1].split() == ["billing-api", "1", "(default)", "-", "0", "0", "now"]
    assert cli("limit", "--default").code == 2


def test_limits_are_set_and_listed(cli: Cli, sample: SampleStore):
    sample.register_worker("mail")
    runs = [sample.enqueue("mail", limit_key="smtp") for _ in range(3)]
    sample.claim(runs[0])

    assert cli("limit", "billing-api", "--at-once", "3").out == "at most 3 runs of billing-api at once.\n"

    assert [line.split() for line in cli("limit").lines] == [
        ["KEY", "AT", "ONCE", "RATE", "RUNNING", "WAITING", "NEXT", "START"],
        ["billing-api", "3", "-", "0", "0", "now"],
        ["smtp", "1", "(default)", "-", "1", "2", "-"],
    ]
    assert cli("limit", "smtp", "--json").json[0]["waiting"] == 2
    assert cli("limit", "none").out == "none is not in use; its limit is 1.\n"
    assert cli("limit", "smtp", "--at-once", "-1").code == 2
    assert cli("limit", "smtp", "--at-once", "many").code == 2


def test_a_rate_limit_is_set_listed_and_removed(cli: Cli):
    answer = cli("limit", "openai", "--rate", "60/minute", "--burst", "10")
    assert answer.out == "runs of openai: 60/minute, burst 10.\n"
    answer = cli("limit", "openai", "--at-once", "5", "--json")
    assert (answer.json["rate_count"], answer.json["rate_period_s"], answer.json["max_running"]) == (60, 60, 5)
    assert cli("limit").lines[1].split() == ["openai", "5", "60/minute,", "burst", "10", "0", "0", "now"]
    assert cli("limit", "openai", "--rate", "none").out == "at most 5 runs of openai at once.\n"
    assert cli("limit", "openai", "--default").out == "at most 1 run of openai at once.\n"
