"""The command `wakeboard limit`."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.cli.conftest import Cli
    from tests.cli.sample_store import SampleStore


def test_limit_default_restores_the_default(cli: Cli):
    cli("limit", "billing-api", "3")
    assert cli("limit", "billing-api", "--default").out == "at most 1 run of billing-api at once.\n"
    assert cli("limit", "billing-api").lines[1].split() == ["billing-api", "1", "(default)", "0", "0"]
    assert cli("limit", "--default").code == 2


def test_the_limit_key_of_a_schedule_cannot_be_listed_or_set(cli: Cli, sample: SampleStore):
    sample.sql("insert into wakeboard.job_limits (key) values ('schedule:4')")
    assert "schedule:4" not in cli("limit").out
    assert 'limit_key is "schedule:4"' in cli("limit", "schedule:4", "5").err


def test_limits_are_set_and_listed(cli: Cli, sample: SampleStore):
    sample.register_worker("mail")
    runs = [sample.enqueue("mail", limit_key="smtp") for _ in range(3)]
    sample.claim(runs[0])

    assert cli("limit", "billing-api", "3").out == "at most 3 runs of billing-api at once.\n"

    assert [line.split() for line in cli("limit").lines] == [
        ["KEY", "AT", "ONCE", "RUNNING", "WAITING"],
        ["billing-api", "3", "0", "0"],
        ["smtp", "1", "(default)", "1", "2"],
    ]
    assert cli("limit", "smtp", "--json").json[0]["waiting"] == 2
    assert cli("limit", "none").out == "none is not in use; its limit is 1.\n"
    assert cli("limit", "smtp", "-1").code == 2
    assert cli("limit", "smtp", "many").code == 2
