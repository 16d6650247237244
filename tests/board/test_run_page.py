"""The page of a run shows what is stored, exactly, what happened, and why the run does not run now."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest

from testbed.board_server import serving
from tests.board.conftest import fetched
from tests.board.past_runs import PAYLOAD, dead_run, retried_run, worker_of
from tests.board.test_run_log import log
from wakeboard.board import BoardOptions
from wakeboard.board.access.viewer import Permission
from wakeboard.board.pages.run import what_next
from wakeboard.board.pages.run_timeline import time_axis, timeline
from wakeboard.cli.support.run_details import run_details
from wakeboard.logs.rules import Line
from wakeboard.store.connection import connect
from wakeboard.views.queries.run_page import RunHistory, read_run_history

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.async_api import Page

    from tests.store.sql_clients import SqlClient

pytestmark = pytest.mark.anyio

HOSTILE = (
    "<script>alert(1)</script> \" onmouseover=alert(1) ' </textarea></pre>{{7*7}}"
    " \u202egnp.exe \u200f\x85 \x1b[2J javascript:x"
)


@pytest.fixture
def worker(database: str) -> Iterator[SqlClient]:
    with worker_of(database) as worker:
        yield worker


async def history_of(worker: SqlClient, run_id: int, namespaces: frozenset[str] | None = None) -> RunHistory:
    async with await connect(worker.dsn) as conn:
        found = await read_run_history(conn, run_id, namespaces=namespaces)
    assert found is not None
    return found


def page_of(board: str, path: str) -> str:
    status, _, body = fetched(board + path)
    assert status == 200, body
    return body.decode()


# -- the timeline


async def test_an_effect_is_shown_under_each_attempt_that_touched_it(worker: SqlClient):
    """The first attempt begins it, the second finds it in doubt, and the third reports it as done."""
    run_id = worker.enqueue()
    for attempt in (1, 2, 3):
        lease = worker.claims(run_id)
        worker.effect(lease, "charge")
        worker.effect(lease, "charge")
        if attempt == 3:
            worker.effect(lease, "charge", done=True)
            worker.effect(lease, "receipt")
            worker.effect(lease, "receipt", done=True)
            worker.complete(lease)
        else:
            worker.fail(lease, delay_s=0)

    attempts = [event for event in timeline(await history_of(worker, run_id)) if event.kind.startswith("attempt")]

    parts = [[(part.key, part.state, part.took is not None) for part in event.effects] for event in attempts]
    assert parts == [
        [("charge", "in doubt", False)],
        [("charge", "in doubt", False)],
        [("charge", "done", False), ("receipt", "done", True)],
    ]


async def test_an_effect_taken_over_is_shown_from_its_new_attempt_on(worker: SqlClient):
    dead = worker.enqueue(max_attempts=1)
    lease = worker.claims(dead)
    worker.effect_forever(lease, "invoice:813")
    worker.fail(lease)
    run_id = worker.enqueue()
    lease = worker.claims(run_id)
    assert worker.effect_forever(lease, "invoice:813") == "in doubt"
    worker.fail(lease, delay_s=0)
    lease = worker.claims(run_id)
    assert worker.effect_forever(lease, "invoice:813") == "in doubt"
    worker.effect_forever(lease, "invoice:813", done=True)
    worker.effect_forever(lease, "receipt:813")
    worker.complete(lease)

    history = await history_of(worker, run_id)
    events = timeline(history)
    axis = time_axis(history, events)

    assert events[0].kind == "created"
    assert [event.title for event in events if event.effects] == ["Attempt 1 failed", "Attempt 2 succeeded"]
    name = "invoice:813 (once for ever, taken over from another run)"
    assert [[(part.key, part.state, part.took) for part in event.effects] for event in events if event.effects] == [
        [(name, "in doubt", None)],
        [(name, "done", None), ("receipt:813 (once for ever)", "in doubt", None)],
    ]
    assert [effect.started_at for effect in history.run.effects[:1]] == [history.run.attempts_made[0].started_at]
    assert axis is not None
    assert [lane.title.partition(" in the ")[0] for lane in axis.lanes if lane.kind == "effect"][:1] == [
        "effect invoice:813: done, taken over from another run"
    ]


@pytest.mark.parametrize(
    ("ending", "state"),
    [("", "running"), ("fail", "failed"), ("release", "interrupted"), ("complete", "failed"), ("fail again", "failed")],
)
async def test_an_unfinished_step_is_shown_as_its_attempt_ended(worker: SqlClient, board: str, ending: str, state: str):
    run_id = worker.enqueue()
    lease = worker.claims(run_id)
    worker.step(lease, "charge")
    if ending:
        getattr(worker, ending.split(maxsplit=1)[0])(lease)
    if ending == "fail again":  # the next attempt runs, and has not begun the step
        worker.make_due(run_id)
        worker.claims(run_id)

    history = await history_of(worker, run_id)

    assert [step.state for step in history.run.steps] == [state]
    assert f"charge  {state}" in "\n".join(map(str, run_details(history.run, history.now)))
    assert f">{state}</span>" in page_of(board, f"/runs/{run_id}")


async def test_a_repeated_step_is_shown_as_it_ended_in_each_attempt(worker: SqlClient, board: str):
    run_id = worker.enqueue()
    failed = worker.claims(run_id)
    worker.step(failed, "charge")
    worker.step(failed, "charge")  # the reply to the first call was lost
    worker.fail_step(failed, "charge", "ValueError: the card has expired")
    worker.fail(failed)
    worker.make_due(run_id)
    released = worker.claims(run_id)
    worker.step(released, "charge")
    worker.release(released)
    last = worker.claims(run_id)
    worker.step(last, "charge")
    worker.step(last, "charge", {"amount": 5})

    history = await history_of(worker, run_id)
    events = timeline(history)
    axis = time_axis(history, events)

    assert axis is not None
    assert [[step.state for step in event.steps] for event in events if event.kind.startswith("attempt")] == [
        ["failed"], ["interrupted"], ["done"],
    ]  # fmt: skip
    assert [len(lane.segments) for lane in axis.lanes if lane.kind == "step"] == [3]
    assert [(step.lease_epoch, step.error) for step in history.run.earlier_steps] == [
        (failed.epoch, "ValueError: the card has expired"), (released.epoch, None),
    ]  # fmt: skip
    lines = "\n".join(map(str, run_details(history.run, history.now)))
    assert re.search(r"charge +failed, attempt 1 .*the card has expired", lines)
    assert re.search(r"charge +interrupted, attempt 2", lines)
    page = page_of(board, f"/runs/{run_id}")
    assert page.count("the card has expired") == 1
    assert page.count("<summary>Result</summary>") == 1


async def test_an_attempt_shows_the_steps_whose_results_it_reused(worker: SqlClient, board: str):
    run_id = worker.enqueue()
    first = worker.claims(run_id)
    worker.step(first, "charge")
    worker.step(first, "charge", {"amount": 5})
    worker.step(first, "charge")
    worker.fail(first)
    worker.make_due(run_id)
    second = worker.claims(run_id)
    assert worker.step(second, "charge") == worker.step(second, "charge") == (True, {"amount": 5})

    history = await history_of(worker, run_id)
    attempts = [event for event in timeline(history) if event.kind.startswith("attempt")]

    assert [[step.name for step in event.steps] for event in attempts] == [["charge"], []]
    assert [[step.name for step in event.reused] for event in attempts] == [[], ["charge"]]
    assert "reused: an earlier attempt completed it" in page_of(board, f"/runs/{run_id}")


async def test_the_timeline_tells_attempts_steps_effects_and_actions_in_order(worker: SqlClient):
    run_id = retried_run(worker)
    worker.sql("select * from replay(%s::bigint[], null, 'the file was wrong', 'bob', 'cli')", [run_id])

    history = await history_of(worker, run_id)
    events = [event for event in timeline(history) if event.kind != "waiting"]

    assert [(event.kind, event.title) for event in events] == [
        ("created", "Started by ana (sql)"),
        ("attempt failed", "Attempt 1 failed"),
        ("attempt released", "Attempt 2 was given back"),
        ("attempt succeeded", "Attempt 2 succeeded"),
        ("succeeded", "Succeeded"),
        ("action", "bob (cli) replayed this run as run"),
    ]
    assert (events[0].note, events[-1].note) == ("asked by finance", "the file was wrong")
    assert events[1].error == "ConnectionError: the bank's server is still starting"
    assert [step.name for step in events[1].steps] == ["Find customers"]
    assert [(effect.key, effect.state) for effect in events[1].effects] == [("mail:42", "in doubt")]
    assert [effect.key for effect in events[3].effects] == ["mail:43"]
    replayed = await history_of(worker, events[-1].other_run or 0)
    first = timeline(replayed)[0]
    assert (first.title, first.other_run, first.note) == (
        "Created by bob (cli) as a replay of run", run_id, "the file was wrong",
    )  # fmt: skip


async def test_attempts_steps_effects_and_log_share_one_axis_of_bounded_height(worker: SqlClient, board: str):
    run_id = dead_run(worker)
    worker.sql(
        "insert into job_steps (run_id, name, lease_epoch) select %s, n, 1 from generate_series(1, 1000) as n", run_id
    )
    began = worker.value("select extract(epoch from created_at)::float8 from job_runs where id = %s", run_id)
    log(worker, run_id, [Line(number, began, 20, "shop", "an item") for number in range(1, 1_200)])
    log(worker, run_id, [Line(1, began, 30, "shop", "an item")], epoch=6)
    history = await history_of(worker, run_id)
    drawn = time_axis(history, timeline(history))

    assert drawn is not None
    run, *parts, logged = drawn.lanes
    assert (logged.title, {segment.kind for segment in logged.segments}) == ("log: 1,200 lines", {"failed"})
    assert [segment.kind for segment in run.segments if segment.kind != "waiting"] == ["failed", "failed"]
    assert run.segments[-1].x + run.segments[-1].width == pytest.approx(1000, abs=0.1)
    segments = [segment for lane in drawn.lanes for segment in lane.segments]
    assert all(segment.x >= 0 and segment.x + segment.width <= 1000.02 for segment in segments)
    assert (len([lane for lane in parts if lane.kind == "step"]), drawn.hidden) == (20, 180)
    assert page_of(board, f"/runs/{run_id}").count('class="lane ') == len(drawn.lanes)


async def test_a_run_of_a_container_shows_its_pod_and_log_command(worker: SqlClient, board: str):
    logs = "kubectl logs --namespace shop job/report-wb-1 --container main"
    lease = worker.claims(worker.enqueue("job"), types=["job"])
    worker.step(lease, "Job 1", {"job": "report-wb-1", "at": "2026-01-05T08:00:00Z", "logs": logs})
    worker.step(lease, "Job 1 started", {"pod": "report-wb-1-x", "node": "<b>", "at": "2026-01-05T08:00:03Z"})
    page = page_of(board, f"/runs/{lease.id}")
    assert "<dt>Pod</dt><dd>report-wb-1-x on node &lt;b&gt;</dd>" in page
    assert f"<code>{logs}</code>" in page
    assert f'data-copy="&#34;{logs}&#34;"' in page
    assert "<dt>Started</dt>" in page
    assert "<dt>Ended</dt>" not in page


# -- what happens next


async def test_a_viewer_of_some_namespaces_learns_no_number_of_other_runs(worker: SqlClient):
    worker.enqueue()
    definition = worker.define("report")
    mine = worker.value("select id from run_now(%s)", definition)
    limited = worker.define("limited", limit_key="openai")
    worker.enqueue(limit_key="openai")
    worker.claim_limited("openai")
    waiting = worker.value("select id from run_now(%s)", limited)

    facts: list[str] = []
    for run_id in (mine, waiting):
        history = await history_of(worker, run_id, frozenset({"billing"}))
        facts += [fact.before for fact in what_next(history, with_counts=False)]
    assert facts[0] == "It waits behind other runs of its queue."
    assert facts[1] == "The limit key openai allows 1 run at a time, and as many are running."


# -- namespaces and secrets


async def test_a_run_of_another_namespace_does_not_exist_for_the_viewer(worker: SqlClient):
    mine = retried_run(worker)
    without_schedule = worker.enqueue()
    async with await connect(worker.dsn) as conn:
        assert await read_run_history(conn, mine, namespaces=frozenset({"billing"})) is not None
        assert await read_run_history(conn, mine, namespaces=frozenset({"shop"})) is None
        assert await read_run_history(conn, without_schedule, namespaces=frozenset({"billing"})) is None


class Stranger:
    """An access whose viewer may look at billing, and at nothing that is masked."""

    asks_for_token = False
    name = "stranger"
    namespaces = frozenset({"billing"})

    async def viewer(self, *_: Any) -> Stranger:
        return self

    async def may(self, permission: Permission, namespace: str | None) -> bool:
        return permission is Permission.VIEW and namespace == "billing"

    async def close(self) -> None:
        pass


def test_secrets_are_masked_for_viewers_who_may_not_reveal_them(board: str, worker: SqlClient):
    run_id = retried_run(worker)
    html = page_of(board, f"/runs/{run_id}")

    assert "hunter2" not in html
    assert "s3cr3t" not in html
    assert "1 value masked" in html
    assert "hunter2" in page_of(board, f"/runs/{run_id}/raw/payload")
    with serving(BoardOptions(dsn=worker.dsn, access=Stranger())) as limited:  # type: ignore[arg-type]
        assert "hunter2" not in page_of(limited, f"/runs/{run_id}")
        text = page_of(limited, f"/runs/{run_id}/raw/payload")
        assert json.loads(text) == {**PAYLOAD, "smtp": {"host": "mail.example.com", "password": "***"}}
        other = worker.enqueue()
        assert fetched(f"{limited}/runs/{other}")[0] == 404
        assert fetched(f"{limited}/runs/{other}/raw/payload")[0] == 404


def test_raw_texts_are_downloads_of_plain_text_as_stored(board: str, worker: SqlClient):
    run_id = retried_run(worker)
    status, headers, body = fetched(f"{board}/runs/{run_id}/raw/result")

    assert status == 200
    assert body.decode() == worker.value("select result::text from job_run_history where id = %s", run_id)
    assert b"9223372036854775808" in body
    assert b"0.10" in body
    assert headers["Content-Type"] == "text/plain; charset=utf-8"
    assert headers["Content-Disposition"] == f'attachment; filename="run-{run_id}-result.txt"'
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert (
        fetched(f"{board}/runs/{run_id}/raw/step?name=Find%20customers")[2]
        == b'{"found": 9007199254740993, "share": 1.1}'
    )
    for missing in ("stack", "other", "step?name=none"):
        assert fetched(f"{board}/runs/{run_id}/raw/{missing}")[0] == 404
    for run in ("999", "9" * 40):
        assert fetched(f"{board}/runs/{run}")[0] == fetched(f"{board}/runs/{run}/raw/payload")[0] == 404


# -- in a browser


async def test_hostile_texts_are_shown_as_text_and_copied_byte_for_byte(board: str, worker: SqlClient, page: Page):
    payload = {"text": HOSTILE, "<b>key": [9007199254740991, 1.5, "\\u0041\n\t"], "long": "ä" * 30_000}
    run_id = worker.enqueue(payload=payload)
    error = f"first line\r\nsecond line {HOSTILE}"
    worker.fail(worker.claims(run_id), error_type="Val<i>ueError", error=error, outcome="discarded")
    stored_payload, stored_error = worker.sql(
        "select payload::text, error_type || ': ' || last_error from job_runs where id = %s", run_id
    )[0]
    dialogs: list[str] = []
    page.on("dialog", lambda dialog: dialogs.append(dialog.message))
    page.on("pageerror", lambda problem: dialogs.append(str(problem)))

    await page.goto(f"{board}/runs/{run_id}")
    for name, stored in (("payload", stored_payload), ("error", stored_error)):
        await page.evaluate("navigator.clipboard.writeText = async (text) => { window.copied = text; }")
        await page.locator(f"#{name} button", has_text="Copy").click()
        await page.wait_for_function("window.copied !== undefined")
        assert await page.evaluate("window.copied") == stored
        await page.evaluate(  # on plain HTTP there is no such object
            "delete window.copied; Object.defineProperty(navigator, 'clipboard', { value: undefined });"
            "window.addEventListener('copy', (e) => { window.copied = e.clipboardData.getData('text/plain'); })"
        )
        await page.locator(f"#{name} button", has_text="Cop").click()
        await page.wait_for_function("window.copied !== undefined")
        assert await page.evaluate("window.copied") == stored
        await page.reload()

    shown = await page.locator("#payload pre").inner_text()
    assert json.loads(shown) == json.loads(stored_payload)
    assert "\u202e" not in shown
    assert "<script>alert(1)</script>" in await page.locator("#error pre").inner_text()
    assert await page.locator("main script, main i, main b key").count() == 0
    assert dialogs == []


async def test_an_open_stack_stays_open_when_the_run_changes(board: str, worker: SqlClient, page: Page):
    run_id = worker.enqueue()
    worker.fail(worker.claims(run_id), delay_s=0)
    await page.goto(f"{board}/runs/{run_id}")
    await page.locator("#live-state", has_text="live").wait_for()
    await page.locator("summary", has_text="Stack").click()

    worker.complete(worker.claims(run_id))
    await page.locator(".event-title", has_text="Attempt 2 succeeded").wait_for(timeout=5000)

    assert await page.locator("details[open] pre", has_text="stack").count() == 1
    assert await page.locator(".run-what .status").inner_text() == "succeeded"


async def test_a_run_is_compared_with_the_last_success_of_its_schedule(worker: SqlClient, board: str):
    definition = worker.define(
        "close-month", queue="default", payload='{"month": "<b>"}', schedule="0 3 * * *", cron_fields="x"
    )
    for outcome in ("complete", "fail", "complete"):
        run_id = worker.value("select id from run_now(%s)", definition)
        lease = worker.claims(run_id)
        worker.step(lease, "Find customers")
        worker.step(lease, "Find customers", {"found": run_id})
        getattr(worker, outcome)(lease)
        if outcome == "fail":
            worker.sql("select cancel(array[%s]::bigint[])", run_id)

    found = page_of(board, f"/runs/{run_id}/compare")
    assert f">Run {run_id - 2}</a>" in found
    assert "Find customers" in found
    assert "No difference." in found
    assert "No other run of its schedule has succeeded" in page_of(board, f"/runs/{run_id - 2}/compare")
    assert fetched(f"{board}/runs/{run_id}/compare?with=99999")[0] == 404
