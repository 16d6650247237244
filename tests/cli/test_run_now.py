"""The command `wakeboard run-now`, and the lookup of schedules by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.cli.conftest import Cli
    from tests.cli.sample_store import SampleStore


def test_run_now_enqueues_a_run_unless_forbidden(cli: Cli, sample: SampleStore):
    sample.add_schedule("weekly-report", concurrency_policy="Forbid", suspended=True)

    assert cli("run-now", "weekly-report").out == "run 1 of billing/weekly-report is queued, due now.\n"
    refused = cli("run-now", "billing/weekly-report", "--json")
    assert refused.code == 1
    assert "concurrencyPolicy is Forbid" in refused.err


def test_a_schedule_is_found_by_any_unique_part_of_its_name(cli: Cli, sample: SampleStore):
    sample.add_schedule("billing/clean-up")
    sample.add_schedule("shop/clean-up")
    sample.add_schedule("shop/report", source="file:one")
    sample.add_schedule("shop/report", source="file:two")

    result = {
        word: cli("run-now", word)
        for word in ("clean-up", "shop/clean-up", "shop/report", "file:two/shop/report", "clean-ub")
    }

    several = "wakeboard: 'clean-up' is the name of 2 schedules: write billing/clean-up or shop/clean-up.\n"
    assert result["clean-up"].err == several
    assert result["shop/clean-up"].code == 0
    assert result["shop/report"].err.endswith("write file:one/shop/report or file:two/shop/report.\n")
    assert result["file:two/shop/report"].code == 0
    assert result["clean-ub"].err.startswith("wakeboard: there is no schedule 'clean-ub'; did you mean ")
