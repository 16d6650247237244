"""Backfills on the board: declared, listed, paused, resumed and cancelled by those who may."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.board.asgi import VIEW, Client, GrantedViewer

if TYPE_CHECKING:
    from tests.board.action_store import Store

pytestmark = pytest.mark.anyio


async def test_a_month_is_declared_on_the_page_of_its_schedule(client: Client, store: Store):
    schedule = store.timed_schedule()
    assert f"/schedules/{schedule}/backfill?" in (await client.get(f"/schedules/{schedule}")).text
    assert "From, in Europe/Lisbon" in (await client.get(f"/schedules/{schedule}/backfill")).words

    done = await client.follow(
        f"/schedules/{schedule}/backfill", first="2026-01-01", last="2026-02-01", at_once="2", reason="closed"
    )

    assert "Declared backfill 1: 31 runs." in done.words
    assert "0 of 31 done" in done.words
    assert store.rows("select at_once, again, actor::text, reason from backfills") == [
        (2, False, store.audit()[0][0], "closed")
    ]
    assert "shop/daily" in (await client.get("/backfills")).words


async def test_a_backfill_is_paused_resumed_and_cancelled(client: Client, store: Store):
    schedule = store.timed_schedule()
    await client.follow(f"/schedules/{schedule}/backfill", first="2026-01-01", last="2026-02-01")
    assert "Paused backfill 1." in (await client.follow("/backfills/1/pause", reason="why")).words
    assert "Nothing changed: backfill 1 was paused." in (await client.follow("/backfills/1/pause")).words
    assert "Resumed backfill 1." in (await client.follow("/backfills/1/resume")).words
    assert "Cancelled backfill 1." in (await client.follow("/backfills/1/cancel")).words
    assert "cancelled" in (await client.get(f"/schedules/{schedule}")).words
    assert store.value("select count(*) from job_runs") == 0


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"first": "2026-02-01", "last": "2026-01-01"}, "The range ends before it begins"),
        ({"first": "x", "last": "2026-01-01"}, "is neither a date nor a time"),
        (
            {"first": "2026-01-01", "last": "2026-01-03", "at_once": "0"},
            "a whole number from 1 to 1,000,000 as the most runs at once",
        ),
        ({"first": "2026-01-01", "last": "2026-01-03", "again": "maybe"}, "again is again or nothing"),
    ],
)
async def test_a_bad_range_is_shown_again_with_a_sentence(
    client: Client, store: Store, fields: dict[str, Any], problem: str
):
    answer = await client.post(f"/schedules/{store.timed_schedule()}/backfill", **fields)
    assert answer.status == 422
    assert problem.lower() in answer.words.lower()
    assert store.rows("select * from backfills") == []


async def test_a_viewer_of_another_namespace_sees_no_backfill(database: str, store: Store, client: Client):
    schedule = store.timed_schedule()
    await client.follow(f"/schedules/{schedule}/backfill", first="2026-01-01", last="2026-02-01")
    eve = Client(database, GrantedViewer("eve", {"bank": VIEW}))
    assert "shop/daily" not in (await eve.get("/backfills")).words
    assert (await eve.get("/backfills/1/cancel")).status == 404
    await eve.close()
