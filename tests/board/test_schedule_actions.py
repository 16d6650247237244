"""Run now, pauses and limits, and the audit page that lists what was done."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.board.asgi import ALL, VIEW, Client, GrantedViewer

if TYPE_CHECKING:
    from tests.board.action_store import Store

pytestmark = pytest.mark.anyio

HOSTILE = """<script>alert(1)</script>"><img src=x onerror=alert(1)>"""


async def test_a_schedule_runs_now_with_its_own_payload_or_another(client: Client, store: Store):
    schedule = store.schedule()
    shown = await client.get(f"/schedules/{schedule}")
    assert f"/schedules/{schedule}/run?" in shown.text

    own = await client.follow(f"/schedules/{schedule}/run", payload="{}")
    await client.follow(f"/schedules/{schedule}/run", payload='{"day": "2026-11-21"}', reason="again")

    assert "Queued as run" in own.words
    assert store.rows("select payload, trigger::text from job_runs order by id") == [
        ({}, "manual"),
        ({"day": "2026-11-21"}, "manual"),
    ]
    assert store.rows("select action, reason, schedule from audit_log order by id") == [
        ("run_now", "", "shop/nightly"),
        ("run_now", "again", "shop/nightly"),
    ]


async def test_a_schedule_is_paused_with_a_reason_and_resumed(client: Client, store: Store):
    schedule = store.schedule()

    refused = await client.post(f"/schedules/{schedule}/pause", reason="  ")
    assert (refused.status, "Write a reason" in refused.words or "write a reason" in refused.words) == (422, True)
    assert store.rows("select * from pauses") == []

    paused = await client.follow(f"/schedules/{schedule}/pause", reason=HOSTILE)
    assert "Paused shop/nightly." in paused.words
    assert HOSTILE in paused.words
    assert "<script>alert" not in paused.text
    again = await client.follow(f"/schedules/{schedule}/pause", reason="twice")
    assert "Nothing changed: shop/nightly was paused already." in again.words
    resumed = await client.follow(f"/schedules/{schedule}/resume")

    assert "Resumed shop/nightly." in resumed.words
    assert "is paused by" in paused.words
    assert "is paused by" not in resumed.words
    assert [row[2] for row in store.audit()] == ["pause", "resume"]
    assert "resume" in resumed.words  # among the actions on its page


async def test_a_pause_of_everything_ends_after_the_chosen_time(client: Client, store: Store):
    assert "until it is resumed" in (await client.get("/pause", scope="all")).words

    paused = await client.follow("/pause", scope="all", reason="a move", hours="8")

    assert ", ends in 8 h" in paused.words
    assert store.rows("select until - paused_at <= interval '8 h' from pauses") == [(True,)]
    assert (await client.post("/pause", scope="all", reason="a move", hours="9")).status == 422


async def test_all_schedules_that_match_are_paused_in_the_namespaces_of_the_viewer(database: str, store: Store):
    mine, other, bank = store.schedule("shop/a"), store.schedule("shop/b"), store.schedule("bank/a")
    client = Client(database, GrantedViewer("ada", {"shop": ALL, "bank": VIEW}))

    form = await client.get("/schedules/pause-matching", q="shop/a")
    assert "Pause 1 schedule?" in form.words
    assert "shop/a" in form.words
    done = await client.follow("/schedules/pause-matching", q="shop/a", reason="migration", next="/schedules?q=a")

    assert "Paused 1 schedule." in done.words
    assert store.rows("select scope, reason from pauses") == [(f"schedule:{mine}", "migration")]
    await client.follow("/schedules/pause-matching", reason="migration")
    assert store.rows("select scope from pauses order by scope") == sorted(
        [(f"schedule:{mine}",), (f"schedule:{other}",)]
    )
    assert "Resumed 2 schedules." in (await client.follow("/schedules/resume-matching")).words
    assert store.rows("select * from pauses") == []
    none = await client.follow("/schedules/resume-matching")
    assert "Nothing changed: no schedule that matches is paused." in none.words
    assert bank
    await client.close()


@pytest.mark.parametrize("scope", ["all", "queue:default"])
async def test_a_queue_and_everything_are_paused_and_resumed(client: Client, store: Store, scope: str):
    store.run()

    assert (await client.post("/pause", scope=scope)).status == 422
    paused = await client.follow("/pause", scope=scope, reason="the disk is full")
    assert "the disk is full" in paused.words
    assert store.rows("select scope, reason from pauses") == [(scope, "the disk is full")]
    await client.follow("/resume", scope=scope)

    assert store.rows("select * from pauses") == []
    assert [row[2] for row in store.audit()] == ["pause", "resume"]


@pytest.mark.parametrize("scope", ["", "queue:", "schedule:1", "everything", "queue:" + "x" * 200])
async def test_no_other_scope_is_paused_there(client: Client, store: Store, scope: str):
    assert (await client.post("/pause", scope=scope, reason="why")).status == 400
    assert store.rows("select * from pauses") == []


async def test_an_effect_once_for_ever_is_found_and_released(client: Client, store: Store):
    store.rows(
        "insert into job_forever_effects (key, first_run_uuid, run_id, lease_epoch, finished_at)"
        " select 'invoice:' || n, gen_random_uuid(), 7, 1, now() from generate_series(100, 160) as n returning 1"
    )
    first = await client.get("/effects?key=invoice:1")
    assert "invoice:149" in first.words
    assert "invoice:150" not in first.words
    after = await client.get("/effects?key=invoice:1&after=invoice:149")
    assert "invoice:150" in after.words
    assert "begins so" in (await client.get("/effects?key=invoice:2")).words
    assert (await client.post("/effects/release", key="invoice:150")).status == 422, "without a reason"
    released = await client.follow("/effects/release", key="invoice:150", reason="paid back")
    assert "The effect invoice:150 is released" in released.words
    assert store.rows("select action, scope, reason from audit_log") == [("release_effect", "invoice:150", "paid back")]
    assert "invoice:150 of run 7" in (await client.get("/audit")).words
    again = await client.follow("/effects/release", key="invoice:150", reason="paid back")
    assert "refused: no run has had an effect" in again.words


async def test_a_limit_is_set_and_reset(client: Client, store: Store):
    shown = await client.follow("/limits/set", key="openai", max_running="12", reason="more quota")
    assert "The limit of openai is 12." in shown.words
    assert store.rows("select max_running, is_explicit from job_limits") == [(12, True)]

    reset = await client.follow("/limits/set", key="openai", max_running="")

    assert "The limit of openai is the default, 1." in reset.words
    assert store.rows("select max_running, is_explicit from job_limits") == [(1, False)]

    rated = await client.follow("/limits/set", key="openai", max_running="", rate="60/minute", burst="10")

    assert "The limit of openai is any number, and 60/minute." in rated.words
    assert "60/minute burst 10" in rated.words
    assert store.rows("select rate_count, rate_period_s, rate_burst from job_limits") == [(60, 60, 10)]
    written = [("set_limit", "more quota"), ("set_limit", ""), ("set_rate_limit", "")]
    assert [row[2:] for row in store.audit()] == written
    assert "no rate → 60/minute, burst 10" in (await client.get("/audit")).words


@pytest.mark.parametrize(
    ("key", "most"), [("", "1"), ("openai", "-1"), ("openai", "1e3"), ("openai", "1000001"), ("a b", "1"), ("a:b", "1")]
)
async def test_an_invalid_limit_is_refused_and_kept_in_the_form(client: Client, store: Store, key: str, most: str):
    answer = await client.post("/limits/set", key=key, max_running=most, reason="why")

    assert answer.status == 422
    assert f'value="{key}"' in answer.text
    assert 'value="why"' in answer.text
    assert store.rows("select * from job_limits") == []


# -- the audit page ----------------------------------------------------------------------------------------------------


async def test_the_audit_page_shows_and_filters_what_was_done(client: Client, store: Store):
    schedule = store.schedule()
    run = store.run("dead", schedule=schedule)
    await client.follow(f"/runs/{run}/retry", reason=HOSTILE)
    await client.follow("/pause", scope="queue:mail", reason="moved")
    store.rows("select pause('all', 'by hand')")

    page = await client.get("/audit")
    assert "<script>alert" not in page.text
    assert HOSTILE in page.words
    assert f'href="/runs/{run}"' in page.text
    assert f'href="/schedules/{schedule}"' in page.text
    for query, found, hidden in [
        ({"actor": "ada"}, "queue:mail", "by hand"),
        ({"action": "retry"}, "was dead", "moved"),
        ({"source": "sql"}, "by hand", "moved"),
        ({"run": str(run)}, "was dead", "moved"),
        ({"schedule": "shop/nightly"}, "was dead", "moved"),
        ({"schedule": str(schedule)}, "was dead", "moved"),
        ({"since": "1h", "action": "pause"}, "moved", "was dead"),
    ]:
        filtered = (await client.get("/audit", **query)).words
        assert (found in filtered, hidden in filtered) == (True, False), query


async def test_audit_pages_follow_each_other_without_gaps(client: Client, store: Store):
    for number in range(60):
        store.rows("select pause('queue:q' || %s, 'r')", number)

    first = await client.get("/audit", action="pause")
    link = first.text.partition('rel="next" href="')[2].partition('"')[0].replace("&amp;", "&")
    second = await client.get(link)

    seen = [f"queue:q{number} " in first.words for number in range(60)]
    rest = [f"queue:q{number} " in second.words for number in range(60)]
    assert seen.count(True) == 50
    assert [a != b for a, b in zip(seen, rest, strict=True)] == [True] * 60


@pytest.mark.parametrize(
    "query",
    [{"action": "drop"}, {"source": "x"}, {"run": "x"}, {"since": "soon"}, {"before": "-1"}, {"bulk": "9" * 30}],
)
async def test_an_invalid_filter_is_explained(client: Client, query: dict[str, str]):
    assert (await client.get("/audit", **query)).status == 400
