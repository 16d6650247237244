"""The logs of runs: what handlers log and print is kept with their attempts."""

from __future__ import annotations

import asyncio
import gc
from typing import TYPE_CHECKING, Any, cast
from uuid import UUID

import pytest

from wakeboard.engine.run import ClaimedRow
from wakeboard.logs.queries import attempt_logs, lines_after
from wakeboard.logs.rules import Gap, Line, with_gaps
from wakeboard.settings import Settings
from wakeboard.store.connection import connect
from wakeboard_worker import run_logs
from wakeboard_worker.attempt import Attempt
from wakeboard_worker.run_logs import RunLogs

if TYPE_CHECKING:
    from tests.worker.conftest import Store

pytestmark = pytest.mark.anyio

HANDLERS = "tests.worker.logging_handlers"


async def logs_of(store: Store, run_id: int) -> list[list[Line]]:
    """The lines of each attempt of a run."""
    async with await connect(store.dsn) as conn:
        uuid = store.watcher.rows("select uuid from wakeboard.all_runs where id = %s", run_id)[0][0]
        found = await attempt_logs(conn, run_id, uuid)
        return [await lines_after(conn, uuid, each.lease_epoch, 0, 1_000_000) for each in found]


async def texts_of(store: Store, run_id: int) -> list[str]:
    """The texts of the last attempt."""
    return [line.text for line in (await logs_of(store, run_id))[-1]]


async def test_lines_belong_to_the_run_whose_code_wrote_them(store: Store) -> None:
    (everywhere,) = store.enqueue("logs-everywhere")
    (silent,) = store.enqueue("is-silent")
    plain = [store.enqueue("logs-plainly", f'{{"number": {number}}}')[0] for number in range(20)]
    (program,) = store.enqueue("command", '{"command": "both"}')
    commands = '{"both": ["/bin/sh", "-c", "echo one; echo two >&2; printf three"]}'
    worker = store.wake(handlers=HANDLERS, commands=commands)
    (lines,) = await logs_of(store, everywhere)
    assert [(line.source, line.text) for line in lines] == [
        ("wakeboard.run", "by the run"),
        ("shop", "by a logger of another name"),
        ("stdout", "printed in parts"),
        ("stderr", "in a thread"),
        ("shop", "in a task"),
        ("shop", "in a step"),
        ("stdout", "unfinished"),
    ]
    assert [line.number for line in lines] == [1, 2, 3, 4, 5, 6, 7]
    assert lines[1].level_name == "warning"
    assert [await texts_of(store, run_id) for run_id in plain] == [[f"plain {number}"] for number in range(20)]
    assert await texts_of(store, program) == ["one", "two", "three"]
    assert await logs_of(store, silent) == []
    assert "by a logger of another name" in worker.log


async def test_hostile_lines_are_kept_whole_short_and_masked(store: Store) -> None:
    (hostile,) = store.enqueue("logs-hostile-lines", '{"password": "open sesame"}')
    (million,) = store.enqueue("logs-a-million", '{"lines": 50000}')
    store.wake(handlers=HANDLERS, run_log_max_bytes=65_536)
    forged, long, secrets, begin, key, end, wrong, last = await texts_of(store, hostile)
    assert forged == "escape \x1b[31m nul \0 html <script> surrogate \udc80 forged\n12:00:00 error forged line"
    assert len(long) <= 8_000
    assert secrets == "the word is [secret password], and token=***"
    assert "MIIE" not in begin + key + end
    assert wrong == "'%d arguments', which its arguments do not fit"
    assert last == "after them"
    (lines,) = await logs_of(store, million)
    kept = list(with_gaps(lines))
    gaps = [each.lines for each in kept if isinstance(each, Gap)]
    assert lines[0].text == "0"
    assert lines[-1].text == "49999"
    assert {line.source for line in lines} == {"stdout"}
    assert sum(gaps) + len(lines) == 50_000
    assert 55_000 <= sum(len(line.text) + 1 for line in lines) <= 70_000


@pytest.mark.parametrize("handler", ["takes-its-secret", "has-a-secret-type"])
async def test_the_secrets_of_a_payload_are_masked_whatever_becomes_of_it(store: Store, handler: str) -> None:
    (run_id,) = store.enqueue(handler, '{"password": "open sesame", "number": 5}')
    store.wake(handlers=HANDLERS)
    assert await texts_of(store, run_id) == ["the word is [secret password]"]


async def test_a_line_written_in_any_number_of_parts_is_cut(store: Store) -> None:
    runs = [store.enqueue("logs-a-line-in-parts", f'{{"parts": {parts}}}')[0] for parts in (7, 9, 16, 40)]
    store.wake(handlers=HANDLERS)
    assert [[len(text) for text in await texts_of(store, run_id)] for run_id in runs] == [[7_000], *[[8_000]] * 3]


async def test_with_failed_only_logs_of_failed_attempts_are_kept(store: Store) -> None:
    (fails,) = store.enqueue("logs-and-fails", '{"fails": true}', max_attempts=1)
    (silent,) = store.enqueue("logs-and-fails", '{"fails": true, "silent": true}', max_attempts=1)
    (succeeds,) = store.enqueue("logs-and-fails")
    (chooses_off,) = store.enqueue("logs-nothing", max_attempts=1)
    for (name,) in store.watcher.rows(
        "select inhrelid::regclass::text from pg_inherits where inhparent = 'wakeboard.job_run_logs'::regclass"
    ):
        store.watcher.do(f"drop table {name}")  # the worker creates what is missing
    store.wake(handlers=HANDLERS, run_logs="failed")
    before, error = await texts_of(store, fails)
    assert before == "before it"
    assert await texts_of(store, silent) == [error]
    assert error.startswith("failed: ValueError: that was it\nTraceback (most recent call last):\n")
    assert error.endswith("ValueError: that was it")
    assert await logs_of(store, succeeds) == await logs_of(store, chooses_off) == []
    (off,) = store.enqueue("logs-and-fails", '{"fails": true}', max_attempts=1)
    store.wake(handlers=HANDLERS, run_logs="off")
    assert await logs_of(store, off) == []


async def test_a_run_that_waits_for_the_effect_of_another_one_says_so(store: Store) -> None:
    runs = store.enqueue("meets-another-run", count=2)
    store.wake(handlers=HANDLERS)
    ((held,),) = store.watcher.rows("select run_id from wakeboard.job_attempts where outcome = 'snoozed'")
    (holder,) = set(runs) - {held}
    store.watcher.do("update wakeboard.job_runs set run_at = now() where id = %s", held)
    store.wake(handlers=HANDLERS)
    wanted = [[f"run {holder} is executing the effect 'invoice:812'; snooze for 5 s"]]
    assert [[line.text for line in lines] for lines in await logs_of(store, held)] == wanted
    assert store.run(held)["status"] == "succeeded"


async def test_a_killed_worker_leaves_the_lines_up_to_its_last_flush(store: Store) -> None:
    (killed,) = store.enqueue("logs-and-is-killed")
    with store.worker(handlers=HANDLERS) as worker:
        assert worker.exit_code() < 0
    assert await texts_of(store, killed) == ["before the end"]


async def test_a_database_that_takes_no_logs_costs_lines_only(store: Store) -> None:
    store.watcher.do("alter function wakeboard.store_logs rename to taken_away")
    (run_id,) = store.enqueue("logs-plainly", '{"number": 1}')
    worker = store.wake(handlers=HANDLERS)
    assert store.run(run_id)["status"] == "succeeded"
    assert "1 line of the logs of runs could not be stored" in worker.log


async def test_logs_that_cannot_be_stored_keep_a_bounded_number_of_attempts(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before the thread starts, nothing is stored. Then the lines that were not kept are a gap."""
    logs = RunLogs(Settings.model_validate({"dsn": store.dsn}), "worker", {})
    run_id, late_id = store.enqueue("ping")[0], store.enqueue("ping")[0]
    watched, late = (
        attempt_of(each, store.watcher.rows("select uuid from wakeboard.job_runs where id = %s", each)[0][0])
        for each in (run_id, late_id)
    )
    logs.add(watched, 20, "shop", "before")
    for number in range(6_000):
        attempt = attempt_of(number, UUID(int=number))
        attempt.has_outcome = True
        for part in ("printed", "\n"):
            logs.write(attempt, "stdout", part) if number % 2 else logs.add(attempt, 20, "shop", part)
        if number % 3 == 0:
            logs.add(attempt, 20, "shop", "x" * 2_000)  # no short line
    assert sum(isinstance(each, Attempt) for each in gc.get_objects()) < 3_000
    with monkeypatch.context() as patched:
        patched.setattr(run_logs, "MAX_GATHERED", 0)
        for part in ("first", " line", "\n"):
            logs.write(late, "stdout", part)
    for _ in range(20):
        logs.add(watched, 20, "shop", "meanwhile")
    written = 21
    logs.start()
    while not store.watcher.rows("select from wakeboard.job_run_logs where run_uuid = %s", watched.uuid):
        for _ in range(20):
            logs.add(watched, 20, "shop", "meanwhile")
            written += 1
        await asyncio.sleep(0.01)
    logs.add(watched, 20, "shop", "after")
    for part in ("second", "\n"):
        logs.write(late, "stdout", part)
    logs.stop()
    (lines,) = await logs_of(store, run_id)
    gaps = [each.lines for each in with_gaps(lines) if isinstance(each, Gap)]
    assert sum(gaps) > 0
    assert sum(gaps) + len(lines) == written + 1
    assert [(line.number, line.text) for line in (await logs_of(store, late_id))[0]] == [(2, "second")]


def attempt_of(run_id: int, uuid: UUID) -> Attempt:
    """An attempt whose handler runs."""
    row = ClaimedRow(run_id, 1, "ping", b"\1{}", 1, 1, 60, 0, 0, "default", 3, 0, uuid.bytes, None, None)
    return Attempt(row, cast("Any", None))
