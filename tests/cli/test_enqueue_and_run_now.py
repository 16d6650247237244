"""The commands `wakeboard enqueue` and `wakeboard run-now`, and the lookup of schedules by name."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from wakeboard.declared.bounded_file import MAX_FILE_BYTES

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


def test_the_enqueued_run_has_the_values_of_the_options(cli: Cli, sample: SampleStore):
    result = cli(
        *("enqueue", "mail", '{"to": "ada"}', "--queue", "post", "--priority", "5", "--in", "10m"),
        *("--key", "k1", "--limit-key", "smtp"),
    )

    assert result.out == "run 1 is queued: mail, due in 10 min.\n"
    row = "select job_type, payload, queue, priority, idempotency_key, limit_key, run_at > now() + interval '9 min'"
    assert sample.sql(f"{row} from wakeboard.job_runs") == [("mail", {"to": "ada"}, "post", 5, "k1", "smtp", True)]


def test_a_run_that_no_worker_would_claim_is_enqueued_with_a_note(cli: Cli, sample: SampleStore):
    assert cli("enqueue", "mail").err == "wakeboard: No worker has served the queue default in the last 10 minutes.\n"

    sample.sql("insert into wakeboard.worker_types (job_type, queue, pool) values ('mail', 'default', 'one')")

    assert cli("enqueue", "mail").err == ""
    misspelled = cli("enqueue", "mial")
    assert misspelled.code == 0
    assert "has had a handler for mial in the last 10 minutes. Did you mean mail?" in misspelled.err


def test_the_same_idempotency_key_enqueues_one_run(cli: Cli, sample: SampleStore):
    first = cli("enqueue", "mail", "{}", "--key", "k1", "--json").json
    again = cli("enqueue", "mail", "{}", "--key", "k1", "--json").json

    assert (again["id"], again["uuid"]) == (first["id"], first["uuid"])
    assert (first["created"], again["created"]) == (True, False)
    assert "already has this key" in cli("enqueue", "mail", "{}", "--key", "k1").out
    refused = cli("enqueue", "mail", '{"other": 1}', "--key", "k1")
    assert (refused.code, "which has another payload" in refused.err) == (1, True)
    sample.fail(first["id"], outcome="discarded")
    assert "a dead run, 1, absorbed it" in cli("enqueue", "mail", "{}", "--key", "k1").out


def test_a_unique_window_keeps_or_replaces_the_run_that_waits(cli: Cli, sample: SampleStore):
    def enqueue(at: int, *words: str) -> str:
        window = ("--unique-for", "1h", "--unique-by", "customer")
        return cli("enqueue", "sync", f'{{"customer": 7, "at": {at}}}', *window, *words).out

    assert enqueue(1) == "run 1 is queued: sync, due now.\n"
    assert enqueue(2) == "run 1 was enqueued within 1h; no run was enqueued.\n"
    assert enqueue(3, "--if-exists", "replace", "--in", "10m") == (
        "run 1 was waiting; it has this payload now, due in 10 min.\n"
    )
    assert sample.sql("select id, payload -> 'at' from wakeboard.job_runs") == [(1, 3)]
    sample.sql("select wakeboard.cancel('{1}')")
    assert enqueue(4, "--if-exists", "replace") == "run 1 was enqueued within 1h; no run was enqueued.\n"


def test_enqueue_reads_the_payload_from_standard_input(cli: Cli, sample: SampleStore, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b'["a", 1]')))

    assert cli("enqueue", "mail", "-").code == 0
    assert sample.value("select payload from wakeboard.job_runs") == ["a", 1]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["{"], "the payload is not JSON"),
        (["[" * 200_000], "the payload is nested too deeply"),
        (['{"a": ' + "9" * 5000 + "}"], "the payload has a number with too many digits"),
        (["3"], "payload is 3, neither an object nor a list"),
        (["null"], "payload is null, neither"),
        (['"x"'], 'payload is "x", neither'),
        (['{"a": "\\u0000"}'], "payload.a holds a NUL character"),
        (["{}", "--at", "tomorrow"], "'tomorrow' is not an ISO 8601 time; write for example 2026-"),
        (["{}", "--in", "soon"], "'soon' is not a duration; write for example 90s"),
        (["{}", "--in", "99999999999w"], "is too"),
        (['{"a": "' + "x" * 70_000 + '"}'], "payload is 70,009 bytes, more than 64 KiB (65536); pass ids, not blobs"),
        (["{}", "--queue", "q" * 64], "at most 63"),
        (["{}", "--unique-for", "soon"], "'soon' is not a duration; write for example 90s"),
        (["{}", "--unique-for", "32d"], "--unique-for is 32d; write whole seconds from 1s to 31d."),
        (["{}", "--unique-for", "0.5s"], "--unique-for is 0.5s; write whole seconds from 1s to 31d."),
        (["{}", "--unique-for", "1h", "--key", "k"], "a run has unique_for or an idempotency key, not both"),
        (["{}", "--unique-by", "customer"], "write --unique-for, too, for example --unique-for 1h"),
        (["{}", "--if-exists", "replace"], "write --unique-for, too, for example --unique-for 1h"),
    ],
)
def test_an_invalid_enqueue_is_refused_with_a_valid_example(cli: Cli, words: list[str], sentence: str):
    result = cli("enqueue", "mail", *words)

    assert result.code == 2
    assert sentence in result.err
    assert result.err.count("\n") == 1


@pytest.mark.timeout(60)
@pytest.mark.parametrize("source", ["@/dev/zero", "@pipe", "@.", "-", "@large.json"])
def test_a_payload_without_an_end_is_refused(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str
) -> None:
    monkeypatch.chdir(tmp_path)
    os.mkfifo("pipe")
    Path("large.json").write_text(" " * MAX_FILE_BYTES + "{}")
    with Path("/dev/zero").open() as endless:
        monkeypatch.setattr("sys.stdin", endless)
        result = cli("enqueue", "ping", source)

    why = "is larger than 4,096 KiB." if source in {"-", "@large.json"} else "is not a regular file but a pipe"
    assert result.code != 0
    assert why in result.err
