"""The list of schedules."""

from __future__ import annotations

import json
import re
from datetime import timedelta
from urllib.parse import quote

import psycopg
import pytest

import wakeboard
from tests.board.schedules import get, schedules_in, serving_team

pytestmark = pytest.mark.anyio

HOSTILE = '<script>alert(1)</script>" onmouseover="x'
REVERSED = "rtl\u202eexe"


@pytest.mark.parametrize("sort", ["name", "next", "last", "failures"])
def test_the_pages_of_each_order_have_every_schedule_once(database: str, board: str, sort: str):
    with schedules_in(database) as schedules:
        now = schedules.now()
        ids = [
            schedules.add(
                f"job-{number % 60}",
                namespace=("ops", "billing", "a/b")[number % 3],
                source=f"file:{number}",
                next_run_at=now + timedelta(minutes=number % 7) if number % 5 else None,
            )
            for number in range(120)
        ]
        for schedule_id in ids[::4]:
            schedules.ran(schedule_id, now - timedelta(minutes=schedule_id % 9), took=timedelta(seconds=1))

    found: list[int] = []
    path: str | None = f"/schedules?sort={sort}"
    while path:
        page = get(board, path)
        assert page.status == 200
        found += page.schedule_ids
        path = page.link("next")

    assert len(found) == 120
    assert sorted(found) == sorted(ids)


def test_the_orders_are_by_name_next_tick_last_end_and_failures(database: str, board: str):
    with schedules_in(database) as schedules:
        now = schedules.now()
        late = schedules.add("a", next_run_at=now + timedelta(hours=2))
        soon = schedules.add("b", next_run_at=now + timedelta(hours=1))
        never = schedules.add("c", None)
        schedules.ran(soon, now - timedelta(hours=1), took=timedelta(seconds=1))
        schedules.ran(never, now - timedelta(hours=3), took=timedelta(seconds=1))
        schedules.conn.execute("select wakeboard.run_now(%s)", [never])
        schedules.conn.execute(
            "update wakeboard.job_runs set status = 'dead', dead_at = now() - interval '2 hours'"
            " where definition_id = %s",
            [never],
        )

    assert get(board, "/schedules").schedule_ids == [late, soon, never]
    assert get(board, "/schedules?sort=next").schedule_ids == [soon, late, never]
    assert get(board, "/schedules?sort=last").schedule_ids == [soon, never, late]
    assert get(board, "/schedules?sort=failures").schedule_ids[0] == never


def test_each_filter_leaves_only_what_matches(database: str, board: str):
    with schedules_in(database) as schedules:
        now = schedules.now()
        plain = schedules.add("plain", "7 4 * * MON", next_run_at=now + timedelta(hours=1), labels={"team": "billing"})
        other = schedules.add(
            "other", namespace="shop", queue="mail", job_type="sync_stock", next_run_at=now, labels={"team": "shop"}
        )
        suspended = schedules.add("asleep", suspended=True)
        stalled = schedules.add("broken", schedule_error="the zone is gone")
        on_call = schedules.add("on-call", None)
        ended = schedules.add("over", "0 8 * * *", cron_fields="1 1 100 fffffffe 1ffe 7f - - until=1767225600")
        late = schedules.add("late", next_run_at=now - timedelta(hours=1))
        paused = schedules.add("held", next_run_at=now + timedelta(hours=1))
        schedules.conn.execute("select wakeboard.pause(%s, 'migration', 'ana', 'cli')", [f"schedule:{paused}"])

    def found(query: str) -> set[int]:
        return set(get(board, f"/schedules?{query}").schedule_ids)

    assert found("label=team%3Dbilling") == {plain}
    assert found("label=team") == {plain, other}
    assert found("label=team%3D") == found("label=team%3Dx") == found("label=x") == set()

    assert found("namespace=shop") == found("queue=mail") == found("job_type=sync_stock") == {other}
    assert found("q=PLAI") == found("q=7+4+*") == found("q=billing%2F+plain") == {plain}
    assert found("q=sync_stock+other") == {other}
    assert found("q=nothing") == set()
    assert found("state=suspended") == {suspended}
    assert found("state=stalled") == found("health=failing") == {stalled}
    assert found("state=paused") == {paused}
    assert found("state=on+demand") == {on_call}
    assert found("state=ended") == {ended}
    assert found("state=active") == {plain, other, late}
    assert found("health=late") == {late}
    assert found("health=ok&state=active") == {plain, other}


def test_a_row_says_what_holds_a_schedule_and_who_did_it(database: str, board: str):
    with schedules_in(database) as schedules:
        held = schedules.add("held")
        schedules.add("broken", schedule_error="the zone is gone")
        schedules.add("asleep", suspended=True)
        schedules.conn.execute(
            "select wakeboard.pause(%s, 'migration', 'ana@example.com', 'cli')", [f"schedule:{held}"]
        )

    text = get(board, "/schedules").text

    assert re.search(r"paused (now|\d+ s ago) by ana@example\.com: migration", text)
    assert "stalled the zone is gone" in text
    assert "suspended by its specification" in text


def test_the_last_runs_are_bars_with_links_and_words(database: str, board: str):
    with schedules_in(database) as schedules:
        now = schedules.now()
        job = schedules.add("job")
        runs = [schedules.ran(job, now - timedelta(hours=hour), took=timedelta(seconds=hour)) for hour in (30, 2)]
        skipped = schedules.ran(
            job, now - timedelta(hours=1), status="skipped", reason="Paused", skipped_until=now, skipped_count=4
        )

    page = get(board, "/schedules")

    assert page.all(r'<a href="/runs/(\d+)" tabindex="-1">') == [str(run) for run in (*runs, skipped)]
    assert page.all('<svg class="strip" role="group" aria-label="([^"]*)"') == ["Last 3 runs: 2 succeeded, 1 skipped"]
    titles = page.all("<title>([^<]*)</title></rect>")
    assert titles[0].startswith(f"Run {runs[0]} of ")
    assert titles[0].endswith("succeeded in 30 s")
    assert titles[2].startswith("4 ticks did not run from ")
    assert titles[2].endswith("it was paused")


def test_a_viewer_sees_only_schedules_of_own_namespaces(database: str):
    with schedules_in(database) as schedules:
        mine = schedules.add("mine", "0 8 * * *", namespace="shop", job_type="sync_stock")
        foreign = schedules.add("secret", "0 8 * * *", namespace="billing")
        schedules.conn.execute("select wakeboard.pause(%s, 'hush')", [f"schedule:{foreign}"])

    with serving_team(database, "shop") as board:
        listed = get(board, "/schedules")
        calendar = get(board, "/calendar?day=2027-06-01&at=2027-06-01T08:00Z&minutes=60")

        assert listed.schedule_ids == [mine]
        assert get(board, "/schedules?namespace=billing").schedule_ids == []
        assert get(board, f"/schedules/{foreign}").status == get(board, "/schedules/billing/secret").status == 404
        assert get(board, f"/schedules/{mine}").status == 200
        assert "1 tick to come" in calendar.text
        for page in (listed, calendar):
            assert "secret" not in page.html
            assert "billing" not in page.html
            assert "paused" not in page.text.replace("paused circuit open", "")


def test_names_made_to_harm_are_shown_exactly(database: str, board: str):
    with schedules_in(database) as schedules:
        number = schedules.add(HOSTILE, namespace="a/b", payload={HOSTILE: HOSTILE}, source="<b>")
        schedules.add(REVERSED, schedule_error="</td><img src=x>")

    listed = get(board, "/schedules")
    page = get(board, f"/schedules/{number}")
    by_name = get(board, "/schedules/a/" + quote(REVERSED))

    for answer in (listed, page, by_name):
        assert "<script>alert" not in answer.html
        assert "<img" not in answer.html.split("</header>")[-1]
        assert "\u202e" not in answer.html
    assert f"a/ {HOSTILE}".replace("a/", "a/b/") in listed.text
    assert HOSTILE in page.text
    assert listed.link("next") is None
    assert by_name.status == 404


@pytest.mark.parametrize(
    ("query", "sentence"),
    [
        ("sort=size", "Sort is 'size': choose one of name, next, last, failures"),
        ("state=odd", "State is 'odd': choose one of active, paused, circuit open, suspended, stalled, on demand"),
        ("after=x", "The link to this part of the list is damaged"),
        (f"after={quote(json.dumps(['a', 1]))}", "The link to this part of the list is damaged"),
        (f"sort=last&after={quote(json.dumps(['soon', 1]))}", "The link to this part of the list is damaged"),
        (f"after={quote(json.dumps(['a', 'b', 2**63]))}", "The link to this part of the list is damaged"),
    ],
)
def test_a_wrong_parameter_gets_a_sentence(board: str, query: str, sentence: str):
    answer = get(board, f"/schedules?{query}")

    assert answer.status == 400
    assert sentence in answer.text


def test_a_schedule_from_code_is_shown_before_the_scheduler_has_seen_it(database: str, board: str):
    with psycopg.connect(database) as conn:
        made = wakeboard.schedule(conn, "team/report", "ping", cron="0 8 * * MON")
    for path in ("/schedules", f"/schedules/{made.id}"):
        page = get(board, path)
        assert "on Monday at 08:00" in page.text, path
        assert "only on demand" not in page.text, path
