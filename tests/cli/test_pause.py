"""The commands `wakeboard pause` and `wakeboard resume`."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
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
        "PAUSED SINCE REASON",
        "all 2 h ago upgrade",
        "queue post 2 h ago",
        "schedule billing/weekly-report 2 h ago",
    ]
    assert cli("schedules", "--json").json[0]["state"] == "paused"

    assert cli("resume", "all", "--json").json == {"scope": "all", "changed": True}
    assert cli("resume", "all").out == "there is no pause of everything; `wakeboard pause` lists what is paused.\n"
    assert cli("resume", "schedule", "weekly-report", "--json").json["scope"] == f"schedule:{weekly}"


def test_an_unused_queue_is_paused_with_a_note(cli: Cli):
    result = cli("pause", "queue", "psot")

    assert result.code == 0
    assert result.err == "wakeboard: note: no schedule, run or worker uses a queue 'psot' yet.\n"


def test_pause_takes_one_kind_and_one_name(cli: Cli):
    for words in (["all", "x"], ["queue"], ["schedule"], ["planet", "x"]):
        assert cli("pause", *words).code == 2
    assert cli("pause", "schedule", "x").code == 1
