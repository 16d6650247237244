"""`wakeboard logs` shows what a run logged."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.cli.conftest import Cli
    from tests.cli.sample_store import SampleStore


def test_the_log_of_a_run_is_shown_by_attempt_level_and_schedule(cli: Cli, sample: SampleStore) -> None:
    sample.register_worker("report")
    schedule = sample.add_schedule("daily", job_type="report")
    run = sample.enqueue("report")
    silent = sample.enqueue("report")
    sample.sql("update wakeboard.job_runs set definition_id = %s where id = %s", schedule, run)
    sample.succeed(run)
    sample.succeed(silent)
    sample.log(run, "first", "second\nline", epoch=1)
    sample.log(run, "worse", epoch=2, level=30)

    shown = cli("logs", str(run)).out.splitlines()
    assert shown[0] == f"— run {run}, attempt 1 —"
    assert shown[1].endswith("info    first: first")
    assert shown[3] == "    line"
    assert shown[5].endswith("warning worse: worse")
    assert [row["text"] for row in cli("logs", str(run), "--level", "warning", "--json").json] == ["worse"]
    assert "worse" in cli("logs", str(run), "-f").out
    assert "worse" in cli("logs", "--schedule", "daily").out
    nothing = cli("logs", str(silent))
    assert nothing.out == ""
    assert f"run {silent} has no log. It has logged nothing" in nothing.err
    assert "write a run, or --schedule" in cli("logs").err
