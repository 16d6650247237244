"""enqueue and run-now."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.cli.conftest import Type
    from tests.cli.sample_store import SampleStore


def test_an_enqueued_run_is_as_the_options_say(type_command: Type, story: SampleStore):
    said = type_command(
        *("enqueue", "mail", '{"to": "ada"}', "--queue", "post", "--priority", "5", "--in", "10m"),
        *("--key", "k1", "--limit-key", "smtp"),
    )

    assert said.out == "run 1 is queued: mail, due in 10 min.\n"
    row = "select job_type, payload, queue, priority, idempotency_key, limit_key, run_at > now() + interval '9 min'"
    assert story.sql(f"{row} from wakeboard.job_runs") == [("mail", {"to": "ada"}, "post", 5, "k1", "smtp", True)]


def test_the_same_key_makes_one_run(type_command: Type):
    first = type_command("enqueue", "mail", "{}", "--key", "k1", "--json").json
    again = type_command("enqueue", "mail", "{}", "--key", "k1", "--json").json

    assert (again["id"], again["uuid"]) == (first["id"], first["uuid"])
    assert (first["created"], again["created"]) == (True, False)
    assert "has this key already" in type_command("enqueue", "mail", "{}", "--key", "k1").out
    refused = type_command("enqueue", "mail", '{"other": 1}', "--key", "k1")
    assert (refused.code, "which has another payload" in refused.err) == (1, True)


def test_a_payload_comes_from_standard_input_too(
    type_command: Type, story: SampleStore, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b'["a", 1]')))

    assert type_command("enqueue", "mail", "-").code == 0
    assert story.value("select payload from wakeboard.job_runs") == ["a", 1]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["{"], "the payload is not JSON"),
        (["[" * 200_000], "the payload is nested too deeply"),
        (['{"a": ' + "9" * 5000 + "}"], "the payload holds a number with too many digits"),
        (["3"], "payload is 3, neither an object nor a list"),
        (['{"a": "\\u0000"}'], "payload.a holds a NUL character"),
        (["{}", "--at", "tomorrow"], "'tomorrow' is no moment; write for example 2026-"),
        (["{}", "--in", "soon"], "'soon' is no length of time; write for example 90s"),
        (["{}", "--in", "99999999999w"], "is too"),
        (['{"a": "' + "x" * 70_000 + '"}'], "payload is 70,009 bytes, more than 64 KiB (65536); pass ids, not blobs"),
        (["{}", "--queue", "q" * 64], "at most 63"),
    ],
)
def test_a_clumsy_enqueue_is_told_what_to_write(type_command: Type, words: list[str], sentence: str):
    said = type_command("enqueue", "mail", *words)

    assert said.code == 2
    assert sentence in said.err
    assert said.err.count("\n") == 1


def test_wrong_usage_is_exit_code_2(type_command: Type):
    for words in (["--priority", "9"], ["--at", "2026-01-01", "--in", "1h"], ["--nonsense"]):
        assert type_command("enqueue", "mail", *words).code == 2


def test_a_schedule_runs_now(type_command: Type, story: SampleStore):
    story.declare("weekly-report", concurrency_policy="Forbid", suspended=True)

    assert type_command("run-now", "weekly-report").out == "run 1 of billing/weekly-report is queued, due now.\n"
    refused = type_command("run-now", "billing/weekly-report", "--json")
    assert refused.code == 1
    assert "concurrencyPolicy is Forbid" in refused.err


def test_a_schedule_is_named_by_as_much_as_makes_it_unique(type_command: Type, story: SampleStore):
    story.declare("billing/tidy")
    story.declare("shop/tidy")
    story.declare("shop/report", source="file:one")
    story.declare("shop/report", source="file:two")

    said = {
        word: type_command("run-now", word)
        for word in ("tidy", "shop/tidy", "shop/report", "file:two/shop/report", "tidi")
    }

    assert said["tidy"].err == "wakeboard: 'tidy' is the name of 2 schedules: write billing/tidy or shop/tidy.\n"
    assert said["shop/tidy"].code == 0
    assert said["shop/report"].err.endswith("write file:one/shop/report or file:two/shop/report.\n")
    assert said["file:two/shop/report"].code == 0
    assert said["tidi"].err.startswith("wakeboard: there is no schedule 'tidi'; did you mean ")
