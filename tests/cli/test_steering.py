"""pause, resume, limit, confirm removal."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.cli.conftest import Type
    from tests.cli.sample_store import SampleStore


def test_what_is_paused_is_listed_until_it_is_resumed(type_command: Type, story: SampleStore):
    weekly = story.declare("weekly-report")
    story.enqueue("mail", queue="post")

    assert type_command("pause", "all", "--reason", "moving house").out == "everything is paused.\n"
    assert type_command("pause", "queue", "post").err == ""
    assert type_command("pause", "schedule", "weekly-report").out == "schedule billing/weekly-report is paused.\n"
    assert type_command("pause", "all").out == "everything was paused already.\n"

    story.sql("update wakeboard.pauses set paused_at = now() - interval '2 hours'")
    assert [" ".join(line.split()) for line in type_command("pause").lines] == [
        "PAUSED SINCE REASON",
        "all 2 h ago moving house",
        "queue post 2 h ago",
        "schedule billing/weekly-report 2 h ago",
    ]
    assert type_command("schedules", "--json").json[0]["state"] == "paused"

    assert type_command("resume", "all", "--json").json == {"what": "all", "changed": True}
    assert (
        type_command("resume", "all").out
        == "no pause of everything is in force; `wakeboard pause` lists what is paused.\n"
    )
    assert type_command("resume", "schedule", "weekly-report", "--json").json["what"] == f"schedule:{weekly}"


def test_a_queue_that_nobody_knows_is_paused_with_a_note(type_command: Type):
    said = type_command("pause", "queue", "psot")

    assert said.code == 0
    assert said.err == "wakeboard: note: no schedule, run or worker knows a queue 'psot' yet.\n"


def test_a_pause_names_one_thing(type_command: Type):
    for words in (["all", "x"], ["queue"], ["schedule"], ["planet", "x"]):
        assert type_command("pause", *words).code == 2
    assert type_command("pause", "schedule", "x").code == 1


def test_a_limit_goes_back_to_its_default(type_command: Type):
    type_command("limit", "billing-api", "3")
    assert type_command("limit", "billing-api", "--default").out == "at most 1 run of billing-api at once.\n"
    assert type_command("limit", "billing-api").lines[1].split() == ["billing-api", "1", "(default)", "0", "0"]
    assert type_command("limit", "--default").code == 2


def test_the_key_of_a_schedule_is_no_limit_of_its_users(type_command: Type, story: SampleStore):
    story.sql("insert into wakeboard.job_limits (key) values ('schedule:4')")
    assert "schedule:4" not in type_command("limit").out
    assert 'limit_key is "schedule:4"' in type_command("limit", "schedule:4", "5").err


def test_limits_are_said_and_listed(type_command: Type, story: SampleStore):
    story.works("mail")
    runs = [story.enqueue("mail", limit_key="smtp") for _ in range(3)]
    story.claim(runs[0])

    assert type_command("limit", "billing-api", "3").out == "at most 3 runs of billing-api at once.\n"

    assert [line.split() for line in type_command("limit").lines] == [
        ["KEY", "AT", "ONCE", "RUNNING", "WAITING"],
        ["billing-api", "3", "0", "0"],
        ["smtp", "1", "(default)", "1", "2"],
    ]
    assert type_command("limit", "smtp", "--json").json[0]["waiting"] == 2
    assert type_command("limit", "none").out == "none is not in use; its limit is 1.\n"
    assert type_command("limit", "smtp", "-1").code == 2
    assert type_command("limit", "smtp", "many").code == 2


def test_a_held_removal_is_confirmed(type_command: Type, story: SampleStore):
    story.sql("select wakeboard.request_removal('file:test', 'hash', 12)")
    story.sql("select wakeboard.request_removal('file:other', '', 0)")

    wrong = type_command("confirm", "removal", "file:tset")
    assert (wrong.code, wrong.err) == (
        1,
        "wakeboard: no removal of 'file:tset' is held; held is one of file:test.\n",
    )
    assert type_command("confirm", "removal", "file:other").code == 1
    assert type_command("confirm", "removal", "file:test").out == "the next sync of file:test removes 12 schedules.\n"
    assert story.value("select wakeboard.request_removal('file:test', 'hash', 12)") is True
