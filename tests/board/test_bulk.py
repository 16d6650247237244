"""Actions on many runs: preview, confirmation, progress, cancel half-way, and what changed meanwhile."""

from __future__ import annotations

import asyncio
import html
import re
from functools import partial
from typing import TYPE_CHECKING

import pytest

from tests.board.asgi import ALL, VIEW, Client, GrantedViewer
from wakeboard.actions.queries import run_preview
from wakeboard.actions.queries.run_preview import preview_runs
from wakeboard.board import bulk_runner
from wakeboard.board.pages import bulk

if TYPE_CHECKING:
    from tests.board.action_store import Store
    from tests.board.asgi import Answer

pytestmark = pytest.mark.anyio

MANY = 12_345


async def finished(client: Client, path: str) -> Answer:
    """The progress page once the bulk action has ended."""
    async with asyncio.timeout(60):
        while True:
            answer = await client.get(path)
            if "Finished" in answer.words or "Stopped" in answer.words:
                return answer
            await asyncio.sleep(0.05)


async def progressed(client: Client, path: str, done: int) -> None:
    """Waits until so many runs are done."""
    async with asyncio.timeout(60):
        while counts(await client.get(path))["done"] < done:  # noqa: ASYNC110 - only the page tells
            await asyncio.sleep(0.05)


def counts(answer: Answer) -> dict[str, int]:
    found = re.findall(r'id="bulk-(\w+)">([\d,]+)<', answer.text)
    return {name: int(number.replace(",", "")) for name, number in found}


async def test_all_that_match_are_retried_after_their_number_was_typed(client: Client, store: Store):
    runs = store.dead_runs(MANY)
    store.run("queued")

    page = await client.get("/bulk/retry", q="status:dead type:send_*", next="/runs?q=status:dead")
    assert "Retry 12,345 runs?" in page.words
    assert "Type 12345 to confirm" in page.words
    answer = await client.post(
        "/bulk/retry",
        q="status:dead type:send_*",
        count="12345",
        confirmed="12,345",
        reason="the disk is back",
        next="/runs?q=status:dead",
    )
    done = await finished(client, answer.header("location"))

    assert counts(done) == {"done": MANY, "refused": 0, "remaining": 0}
    assert 'href="/runs?q=status:dead"' in done.text
    assert store.value("select count(*) from job_runs where status = 'queued'") == MANY + 1
    assert store.rows(
        "select actor::text, source::text, action, reason, count(*) from audit_log where run_id = any (%s)"
        " group by 1, 2, 3, 4",
        runs,
    ) == [("ada", "board", "retry", "the disk is back", MANY)]


@pytest.mark.parametrize("typed", ["", "3", "yes", "12346", "\uff11\uff12"])
async def test_without_the_right_number_nothing_is_done(client: Client, store: Store, typed: str):
    store.dead_runs(2)

    answer = await client.post("/bulk/retry", q="status:dead", count="2", confirmed=typed, reason="why")

    assert answer.status == 422
    assert "type the number of runs, 2, to confirm" in answer.words
    assert 'value="why"' in answer.text
    assert store.value("select count(*) from bulk_actions") == 0


async def test_never_more_runs_than_were_confirmed(client: Client, store: Store):
    store.dead_runs(2)
    first = store.rows("select id from job_runs order by id limit 2")
    store.dead_runs(3)

    answer = await client.post("/bulk/retry", q="", count="2", confirmed="2")
    await finished(client, answer.header("location"))

    assert store.rows("select id from job_runs where status = 'queued' order by id") == first


async def test_a_selection_touches_the_selected_runs_only(client: Client, store: Store):
    runs = store.dead_runs(4)
    page = await client.get("/runs", q="status:dead")
    assert page.text.count('name="id"') == 4

    preview = await client.send("GET", f"/bulk/discard?id={runs[0]}&id={runs[2]}&next=/runs")
    assert "Discard 2 runs?" in preview.words
    answer = await client.post("/bulk/discard", id=[str(runs[0]), str(runs[2])], count="2")
    await finished(client, answer.header("location"))

    assert store.rows("select id from job_runs order by id") == [(runs[1],), (runs[3],)]


async def test_a_bulk_action_is_cancelled_half_way(client: Client, store: Store, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(bulk_runner, "BATCH_SIZE", 1000)
    runs = store.dead_runs(MANY)
    blocker = store.another()
    with blocker.conn.transaction():  # the fifth batch waits for this lock
        blocker.rows("select id from job_runs where id = %s for update", runs[4500])
        answer = await client.post("/bulk/retry", q="status:dead", count=str(MANY), confirmed=str(MANY))
        path = answer.header("location")
        await progressed(client, path, 4000)
        cancelled = await client.follow(path.partition("?")[0] + "/cancel-retry", next="/runs")
    ended = await finished(client, path)

    assert "The runs that were done stay as they are." in cancelled.words
    seen = counts(ended)
    assert seen["done"] + seen["refused"] in {4000, 5000}  # the cancel comes before the fifth batch, or after it
    assert seen["done"] + seen["refused"] + seen["remaining"] == MANY
    assert store.value("select count(*) from job_runs where status = 'queued'") == seen["done"]
    assert store.rows("select actor::text, action from audit_log where action = 'cancel_bulk_action'") == [
        ("ada", "cancel_bulk_action")
    ]
    blocker.conn.close()


async def test_a_bulk_action_stays_in_the_namespaces_of_its_viewer(database: str, store: Store):
    shop, bank = store.schedule("shop/a"), store.schedule("bank/b")
    mine, other, none = store.run("dead", schedule=shop), store.run("dead", schedule=bank), store.run("dead")
    client = Client(database, GrantedViewer("ada", {"shop": ALL, "bank": VIEW}))

    answer = await client.post("/bulk/retry", q="status:dead", count="1", confirmed="1")
    await finished(client, answer.header("location"))
    await client.post("/bulk/discard", id=[str(other), str(none)], count="2")

    assert [store.status(run) for run in (mine, other, none)] == ["queued", "dead", "dead"]
    await client.close()


async def test_a_bulk_action_of_others_is_hidden_from_viewers_of_some_namespaces(
    database: str, client: Client, store: Store
):
    store.dead_runs(1)
    path = (await client.post("/bulk/retry", q="", count="1", confirmed="1")).header("location").partition("?")[0]
    restricted = Client(database, GrantedViewer("eve", {"shop": ALL}))

    assert (await restricted.get(path)).status == 404
    assert (await restricted.post(path + "/cancel-retry")).status == 404
    assert "retry 1 run" not in (await restricted.get("/bulk")).words
    assert "retry 1 run" in (await client.get("/bulk")).words
    await restricted.close()


async def test_bulk_actions_of_others_are_ended_by_no_one_else(database: str, client: Client, store: Store):
    store.schedule("shop/a")
    store.dead_runs(1)
    answer = await client.post("/bulk/retry", q="status:dead", count="1", confirmed="1")
    path = answer.header("location").partition("?")[0]
    sees_all = Client(database, GrantedViewer("eve", {None: VIEW, "shop": ALL}))

    assert "leave the rest" not in (await sees_all.get(path)).words
    assert (await sees_all.post(path + "/cancel-retry")).status == 403
    assert store.value("select cancelled_at from bulk_actions") is None
    await sees_all.close()


async def test_a_search_that_was_not_understood_acts_on_nothing(client: Client, store: Store):
    store.dead_runs(1)

    answer = await client.post("/bulk/retry", q="status:dead typ:ping", count="1", confirmed="1")

    assert answer.status == 400
    assert store.value("select count(*) from bulk_actions") == 0


async def test_a_long_preview_says_so_and_the_action_has_its_runs_only(
    client: Client, store: Store, monkeypatch: pytest.MonkeyPatch
):
    older, newer = store.run("cancelled"), store.run("cancelled")
    store.rows("update job_run_history set finished_at = now() + interval '1 hour' where id = %s returning 1", newer)
    monkeypatch.setattr(bulk, "preview_runs", partial(preview_runs, budget_s=0))
    monkeypatch.setattr(run_preview, "FIRST_SPAN", {"past": 1})

    page = await client.get("/bulk/replay", q="type:send_mail", next="/runs?q=type:send_mail")
    assert "Replay 1 run?" in page.words
    assert "Counting took long and stopped. These are only the runs that ended on or after" in page.words
    form = dict(re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', page.text))
    done = await finished(client, (await client.post("/bulk/replay", **form, confirmed="1")).header("location"))

    assert counts(done) == {"done": 1, "refused": 0, "remaining": 0}
    assert "type:send_mail (that ended on or after" in done.words
    assert store.rows("select run_id from bulk_action_runs") == [(newer,)]
    link = html.unescape(re.findall(r'href="([^"]+)">Look at the older ones', page.text)[0])
    monkeypatch.setattr(run_preview, "FIRST_SPAN", {"past": 10**12})
    rest = await client.send("GET", link)
    assert f">{older}<" in rest.text
    assert f">{newer}<" not in rest.text
    assert 'value="/runs?q=type:send_mail"' in rest.text
