"""All that is known of one run."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.cli.conftest import Type
    from tests.cli.sample_store import SampleStore


def test_a_run_that_failed_shows_payload_attempts_steps_effects_and_what_to_do(type_command: Type, story: SampleStore):
    schedule = story.declare("weekly-report", payload={"segment": "active"}, max_attempts=2)
    story.works("report")
    run = story.run_now(schedule)
    epoch = story.claim(run)
    story.step(run, epoch, "Collect", {"rows": 12})
    story.step(run, epoch, "Send", done=False)
    story.effect(run, epoch, "charge card")
    story.effect(run, epoch, "tell warehouse", done=True)
    story.sql(
        "select wakeboard.fail(77, %s::bigint[], %s::bigint[], '{failed}', '{HTTPError}', '{503 from partner}',"
        " array[E'Traceback\\n  in send'], '{0}')", [run], [epoch],
    )  # fmt: skip
    story.fail(run, "503 again")
    story.long_ago(run, "2 hours")

    said = type_command("run", str(run))

    assert said.code == 0
    assert said.lines[0] == f"run {run}  dead  2 h ago  ValueError: 503 again"
    assert '    "segment": "active"' in said.lines
    text = "\n".join(" ".join(line.split()) for line in said.lines)
    assert "2 failed 2 h ago" in text
    assert "worker-a ValueError: 503 again" in text
    assert "last stack" in text
    assert "Collect done in" in text
    assert '{"rows": 12}' in text
    assert "Send begun" in text
    assert "charge card in doubt 2 h ago" in text
    assert "tell warehouse done 2 h ago" in text
    assert "attempt 1 failed: HTTPError" in text
    assert "An effect in doubt was begun" in text
    assert said.lines[-1] == f"`wakeboard retry {run}` tries it again, `wakeboard discard {run}` gives it up."


def test_an_effect_of_the_attempt_that_runs_now_is_not_in_doubt(type_command: Type, story: SampleStore):
    run = story.enqueue()
    story.effect(run, story.claim(run), "charge card")

    (effect,) = type_command("run", str(run), "--json").json["effects"]

    assert effect["state"] == "begun"


def test_a_run_is_found_by_its_uuid_live_or_finished(type_command: Type, story: SampleStore):
    live, past = story.enqueue(), story.enqueue()
    uuids = {run: str(story.value("select uuid from wakeboard.job_runs where id = %s", run)) for run in (live, past)}
    story.succeed(past, {"sent": 3})

    for run, uuid in uuids.items():
        assert type_command("run", uuid, "--json").json["id"] == run
    assert type_command("run", uuids[past], "--json").json["result"] == {"sent": 3}


def test_json_has_iso_moments_in_utc(type_command: Type, story: SampleStore):
    run = story.enqueue("ping", {"größe": "ünï"})

    found = type_command("run", str(run), "--json").json

    assert found["run_at"].endswith("Z")
    assert abs(datetime.fromisoformat(found["run_at"]) - datetime.now(UTC)) < timedelta(minutes=1)
    assert found["payload"] == {"größe": "ünï"}
    assert found["finished_at"] is None


def test_a_long_payload_is_cut_for_people_and_whole_for_programs(type_command: Type, story: SampleStore):
    payload = {"text": "x" * 5000}
    run = story.enqueue("ping", payload)

    assert "more characters; --json shows all" in type_command("run", str(run)).out
    assert json.loads(type_command("run", str(run), "--json").out)["payload"] == payload


def test_a_run_is_found_by_the_beginning_of_its_uuid(type_command: Type, story: SampleStore):
    run, other = story.enqueue(), story.enqueue()
    story.sql("update wakeboard.job_runs set uuid = 'abcdef12-0000-4000-8000-000000000001' where id = %s", run)
    story.sql("update wakeboard.job_runs set uuid = 'abcdef12-0000-4000-8000-00000000000f' where id = %s", other)

    assert type_command("cancel", "abcdef12-0000-4000-8000-00000000000f").code == 0
    for word in ("abcdef12-0000-4000-8000-000000000001", "abcdef12-0000-4000-8000-000000000001".upper()):
        assert type_command("run", word, "--json").json["id"] == run
    assert type_command("run", "abcdef12-0000-4000-8000-00000000000f", "--json").json["id"] == other
    several = type_command("run", "abcdef12-…")
    assert several.code == 1
    assert several.err.startswith("wakeboard: abcdef12-… begins the uuid of several runs: write abcdef12-0000-")
    story.sql("update wakeboard.job_runs set uuid = 'fedcba98-0000-4000-8000-000000000001' where id = %s", run)
    for word in ("fedcba98", "fedcba98…", "FEDCBA98-0000-4"):
        assert type_command("run", word, "--json").json["id"] == run


def test_what_is_no_run_is_said_in_one_sentence(type_command: Type):
    for word in ("999", "11111111-2222-4333-8444-555555555555"):
        assert type_command("run", word).err.startswith(f"wakeboard: there is no run {word}; it may be older")
    for word in ("x", "99999999999999999999", "٣", "0b0e1c5", "0b0e1c5x", "0b0e1c5a-…-"):
        said = type_command("run", word)
        assert said.code == 2
        assert said.err.startswith(f"wakeboard: {word!r} is no run: write its id")


def test_a_run_shows_the_generation_and_the_spec_from_which_it_was_made(type_command: Type, story: SampleStore):
    weekly = story.declare("weekly-report", spec_hash="0123456789abcdef", generation=3)
    run = story.run_now(weekly)

    (line,) = [line for line in type_command("run", str(run)).lines if line.startswith("  spec ")]
    assert line.split(maxsplit=1)[1] == "generation 3, spec 0123456789ab"
    found = type_command("run", str(run), "--json").json
    assert (found["definition_generation"], found["spec_hash"]) == (3, "0123456789abcdef")
    listed = type_command("schedules", "--json").json[0]
    assert (listed["generation"], listed["spec_hash"]) == (3, "0123456789abcdef")
    assert type_command("runs", "--json").json[0]["definition_generation"] == 3

    story.sql("update wakeboard.job_definitions set generation = 4, spec_hash = 'f'")
    assert "generation 3, its schedule has another spec now" in type_command("run", str(run)).out
    assert type_command("run", str(run), "--json").json["spec_hash"] is None
    assert "spec " not in type_command("run", str(story.enqueue())).out


def test_a_run_that_was_replaced_shows_that(type_command: Type, story: SampleStore):
    weekly = story.declare("weekly-report", concurrency_policy="Replace")
    first = story.run_now(weekly)
    story.run_now(weekly)

    assert "cancelled: replaced by a newer run" in type_command("run", str(first)).out
    (line,) = [line for line in type_command("runs").lines if line.split()[0] == str(first)]
    assert line.endswith("replaced by a newer run")
