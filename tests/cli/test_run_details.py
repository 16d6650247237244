"""The command `wakeboard run`."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.cli.conftest import Cli
    from tests.cli.sample_store import SampleStore


def test_a_dead_run_shows_payload_attempts_steps_effects_and_the_next_commands(cli: Cli, sample: SampleStore):
    schedule = sample.add_schedule("weekly-report", payload={"segment": "active"}, max_attempts=2)
    sample.register_worker("report")
    run = sample.run_now(schedule)
    epoch = sample.claim(run)
    sample.step(run, epoch, "Collect", {"rows": 12})
    sample.step(run, epoch, "Send", done=False)
    sample.effect(run, epoch, "charge card")
    sample.effect(run, epoch, "tell warehouse", done=True)
    sample.sql(
        "select wakeboard.fail(77, %s::bigint[], %s::bigint[], '{failed}', '{HTTPError}', '{503 from partner}',"
        " array[E'Traceback\\n  in send'], '{0}')", [run], [epoch],
    )  # fmt: skip
    sample.fail(run, "503 again")
    sample.backdate(run, "2 hours")

    result = cli("run", str(run))

    assert result.code == 0
    assert result.lines[0] == f"run {run}  dead  2 h ago  ValueError: 503 again"
    assert '    "segment": "active"' in result.lines
    text = "\n".join(result.cells)
    assert "2 failed 2 h ago" in text
    assert "worker-a ValueError: 503 again" in text
    assert "last stack" in text
    assert "Collect done " in text
    assert '{"rows": 12}' in text
    assert "Send failed" in text
    assert "charge card in doubt 2 h ago" in text
    assert "tell warehouse done 2 h ago" in text
    assert "attempt 1 failed: HTTPError" in text
    assert "An effect in doubt may have happened" in text
    assert result.lines[-1] == f"`wakeboard retry {run}` runs it again, `wakeboard discard {run}` moves it to history."


def test_json_has_iso_times_in_utc(cli: Cli, sample: SampleStore):
    run = sample.enqueue("ping", {"größe": "ünï"})

    found = cli("run", str(run), "--json").json

    assert found["run_at"].endswith("Z")
    assert abs(datetime.fromisoformat(found["run_at"]) - datetime.now(UTC)) < timedelta(minutes=1)
    assert found["payload"] == {"größe": "ünï"}
    assert found["finished_at"] is None


def test_a_payload_is_truncated_and_masked_except_in_json(cli: Cli, sample: SampleStore):
    payload = {"text": "x" * 5000, "password": "hunter2"}
    run = sample.enqueue("ping", payload)

    shown = cli("run", str(run)).out
    assert "more characters; --json shows all" in shown
    assert "hunter2" not in shown
    assert "1 value masked because of the key; --json shows it" in shown
    assert json.loads(cli("run", str(run), "--json").out)["payload"] == payload


def test_a_number_may_begin_a_uuid_if_no_run_has_this_id(cli: Cli, sample: SampleStore):
    run, past = sample.enqueue(), sample.enqueue()
    sample.succeed(past)
    sample.sql("update wakeboard.job_runs set uuid = '51076088-0000-4000-8000-000000000000'")
    sample.sql("update wakeboard.job_run_history set uuid = '01234567-0000-4000-8000-000000000000'")

    assert cli("run", "51076088", "--json").json["id"] == cli("explain", "51076088", "--json").json["id"] == run
    assert cli("run", "01234567", "--json").json["id"] == past
    assert "there is no run 99999999" in cli("run", "99999999").err
    sample.sql("update wakeboard.job_run_history set id = 51076088")
    assert cli("run", "51076088", "--json").json["id"] == 51076088  # an id precedes
    sample.sql("update wakeboard.job_run_history set id = 2")
    assert cli("cancel", "51076088").code == 0
    assert cli("run", str(run), "--json").json["status"] == "cancelled"


def test_a_run_is_found_by_the_beginning_of_its_uuid(cli: Cli, sample: SampleStore):
    run, other = sample.enqueue(), sample.enqueue()
    sample.sql("update wakeboard.job_runs set uuid = 'abcdef12-0000-4000-8000-000000000001' where id = %s", run)
    sample.sql("update wakeboard.job_runs set uuid = 'abcdef12-0000-4000-8000-00000000000f' where id = %s", other)

    assert cli("cancel", "abcdef12-0000-4000-8000-00000000000f").code == 0
    for word in ("abcdef12-0000-4000-8000-000000000001", "abcdef12-0000-4000-8000-000000000001".upper()):
        assert cli("run", word, "--json").json["id"] == run
    assert cli("run", "abcdef12-0000-4000-8000-00000000000f", "--json").json["id"] == other
    several = cli("run", "abcdef12-…")
    assert several.code == 1
    assert several.err.startswith("wakeboard: the uuids of several runs begin with abcdef12-…: write abcdef12-0000-")
    sample.sql("update wakeboard.job_runs set uuid = 'fedcba98-0000-4000-8000-000000000001' where id = %s", run)
    for word in ("fedcba98", "fedcba98…", "FEDCBA98-0000-4"):
        assert cli("run", word, "--json").json["id"] == run


def test_a_run_says_whether_its_schedule_has_changed_since(cli: Cli, sample: SampleStore):
    change = "select id from wakeboard.schedule('team/report', 'report', cron => %s)"
    run = sample.run_now(sample.value(change, "@daily"))

    def shown() -> str:
        return next(line for line in cli("run", str(run)).cells if "generation" in line)

    assert shown() == "spec generation 1"
    sample.value(change, "@hourly")
    assert shown() == "spec generation 1 (now 2)"
    sample.sql("select wakeboard.unschedule('team/report')")
    assert shown() == "spec generation 1 (the schedule was removed)"


def test_an_unknown_or_invalid_run_is_one_sentence(cli: Cli):
    for word in ("999", "11111111-2222-4333-8444-555555555555"):
        assert cli("run", word).err.startswith(f"wakeboard: there is no run {word}; it may be older")
    for word in ("x", "99999999999999999999", "٣", "0b0e1c5", "0b0e1c5x", "0b0e1c5a-…-"):
        result = cli("run", word)
        assert result.code == 2
        assert result.err.startswith(f"wakeboard: {word!r} is not a run: write its id")
