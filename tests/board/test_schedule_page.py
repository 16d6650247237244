"""The page of one schedule."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from testbed.processes import wait_for
from tests.board.schedules import Answer, get, schedules_in, serving_team
from wakeboard.board.templating import clock_element
from wakeboard.ticks.cron_parser import parse_cron
from wakeboard.ticks.dst_ticks import DstTicks
from wakeboard.views.rules.next_ticks import next_ticks

if TYPE_CHECKING:
    from playwright.async_api import Browser

    from wakeboard.ticks.dst_ticks import Gap, Overlap

pytestmark = pytest.mark.anyio

SPRING, AUTUMN = "2027-03-27T12:00:00+00:00", "2026-10-31T12:00:00+00:00"
CLOCK_CHANGES = [
    ("30 1 * * *", "Europe/Lisbon", SPRING, "RunAfter", "First", "moved from 01:30, which does not exist"),
    ("*/20 1 * * *", "Europe/Lisbon", SPRING, "Skip", "First", "skips 01:00 and 2 more, which do not exist"),
    ("30 1 * * *", "America/New_York", AUTUMN, "RunAfter", "First", "the only one that counts"),
    ("30 1 * * *", "America/New_York", AUTUMN, "RunAfter", "Both", "this is the second time"),
]


def test_ticks_within_a_minute_show_their_seconds():
    minute = datetime(2026, 11, 29, 0, 36, tzinfo=UTC)
    texts = [re.sub("<.*?>", "", clock_element(minute + timedelta(seconds=n))) for n in (0, 5)]
    assert texts == ["Sun 2026-11-29 00:36 UTC", "Sun 2026-11-29 00:36:05 UTC"]


@pytest.mark.parametrize(("cron", "zone", "after", "gap", "overlap", "mark"), CLOCK_CHANGES)
def test_the_next_ticks_are_those_of_wakeboard_next(
    database: str, board: str, cron: str, zone: str, after: str, gap: Gap, overlap: Overlap, mark: str
):
    with schedules_in(database) as schedules:
        number = schedules.add("job", cron, time_zone=zone, dst_gap=gap, dst_overlap=overlap)
    ticks = DstTicks(parse_cron(cron, name="billing/job"), zone, gap, overlap)
    expected, skipped = next_ticks(ticks, datetime.fromisoformat(after), 10)

    page = get(board, f"/schedules/{number}?from={after.replace('+', '%2B')}")

    assert page.all(r'<td><time datetime="([^"]*)">') == [f"{tick.local[:-6]}:00{tick.local[-6:]}" for tick in expected]
    assert ticks_of_viewer(page) == [tick.at for tick in expected]
    assert page.all('<span class="tick-note">([^<]*)</span>') == [tick.note for tick in expected if tick.note]
    assert page.all(r"Clock change: ([^<]*)\.</p>") == skipped
    assert mark in page.text


def test_the_page_of_a_removed_schedule_names_no_ticks(database: str, board: str):
    with schedules_in(database) as schedules:
        number = schedules.add("job", removed_at=datetime.now(UTC))

    text = get(board, f"/schedules/{number}").text

    assert "It was removed" in text
    assert "ticks becomes a run" not in text
    assert "Next 0 ticks" not in text


async def test_a_viewer_in_another_zone_reads_both_times(database: str, board: str, browser: Browser):
    with schedules_in(database) as schedules:
        number = schedules.add("job", "30 1 * * *", time_zone="Europe/Lisbon")
    context = await browser.new_context(timezone_id="Asia/Tokyo", locale="en-GB")
    page = await context.new_page()

    await page.goto(f"{board}/schedules/{number}?from=2027-03-27T12:00")
    rows = page.locator(".ticks tbody tr")

    shown = await rows.first.locator("board-time").first.evaluate("each => each.shadowRoot.textContent")
    assert "Sun 2027-03-28 02:00" in await rows.first.inner_text()
    assert "moved from 01:30, which does not exist on 2027-03-28" in await rows.first.inner_text()
    assert shown == "Sun 2027-03-28 10:00"
    assert "Mon 2027-03-29 01:30" in await rows.nth(1).inner_text()
    await context.close()


def test_the_page_has_the_schedule_as_yaml_and_where_it_comes_from(database: str, board: str):
    with schedules_in(database) as schedules:
        number = schedules.add(
            "report", "0 8 * * MON", time_zone="Europe/Lisbon", payload={"segment": "active"}, limit_key="smtp",
            concurrency_policy="Forbid", generation=7, source="k8s:4711",
        )  # fmt: skip
        schedules.conn.execute("select wakeboard.set_limit('smtp', 3)")

    page = get(board, f"/schedules/{number}")
    written, _ = page.all(r"<pre[^>]*>(.*?)</pre>")

    assert yaml.safe_load(written)["spec"] == {
        "jobType": "send_mail",
        "schedule": "0 8 * * MON",
        "timeZone": "Europe/Lisbon",
        "payload": {"segment": "active"},
        "limitKey": "smtp",
        "concurrencyPolicy": "Forbid",
    }
    assert "on Monday at 08:00" in page.text
    assert "Source k8s:4711" in page.text
    assert "Generation 7, updated" in page.text
    assert "Limit key smtp : 0 of 3 run" in page.text or "Limit key smtp: 0 of 3 run" in page.text

    def are_equal() -> bool:
        by_name = get(board, "/schedules/billing/report").html
        for separator in ("/", "%2F"):
            named, numbered = (
                separator + path.replace("/", separator) for path in ("schedules/billing/report", f"schedules/{number}")
            )
            by_name = by_name.replace(named, numbered)
        return by_name == get(board, f"/schedules/{number}").html

    wait_for(are_equal)  # "1 s ago" may become "2 s ago" between the two


@pytest.mark.parametrize(
    ("error", "says"),
    [(None, "Its next ticks are not computed yet."), ("no such day", "Its next ticks cannot be computed.")],
)
def test_a_schedule_without_computed_ticks_is_not_on_demand(database: str, board: str, error: str | None, says: str):
    with schedules_in(database) as schedules:
        schedules.conn.execute("select wakeboard.schedule('billing/job', 'ping', cron => '0 0 H(30-31) 2 *')")
        schedules.conn.execute("update wakeboard.job_definitions set schedule_error = %s", (error,))
    page = get(board, "/schedules/billing/job")
    assert says in page.text
    assert "on demand" not in page.text


def test_the_notices_of_a_page_are_sentences(database: str, board: str):
    """A distance does not follow "since", "from" and "until", and the page has a button for what a command does."""
    with schedules_in(database) as schedules:
        opened = schedules.now().replace(microsecond=0)
        circuit: dict[str, Any] = {"circuit_opened_at": opened, "circuit_probe_at": opened, "circuit_probes": 0}
        schedule = schedules.add("broken", "* * * * *", suspend_after_dead=2, **circuit)
        schedules.conn.execute("select wakeboard.pause(%s, 'test', actor => 'ana')", [f"schedule:{schedule}"])
        paused = schedules.now()

    page = get(board, f"/schedules/{schedule}")
    notices = [
        " ".join(re.sub("<[^>]*>", "", each).split()) for each in page.all(r'(?s)<p class="notice[^>]*>(.*?)</p>')
    ]

    at = f"{opened.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"
    assert notices[0].startswith(f"It is paused by ana since {paused.astimezone(UTC):%Y-%m-%d %H:%M}")
    assert notices[1].startswith(f"Its circuit has been open since {at}, because 2 runs")
    assert f"The first tick from {at} on is a probe." in notices
    assert not any("`" in notice or "wakeboard resume" in notice for notice in notices)


def test_secrets_in_the_payload_are_hidden(database: str, board: str):
    with schedules_in(database) as schedules:
        payload = {"api": {"token": "s3cret-value"}, "amount": 3, "text": "x" * 400}
        number = schedules.add("job", payload=payload, expect_success_within_s=90)

    page = get(board, f"/schedules/{number}")

    assert "s3cret-value" not in page.html
    assert yaml.safe_load(page.all(r"<pre[^>]*>(.*?)</pre>")[0])["spec"]["payload"] == {
        "api": {"token": "***"},
        "amount": 3,
        "text": "x" * 400,
    }
    (shown,) = page.all("<dt>Payload</dt><dd><code>(.*?)</code>")
    assert shown.startswith('{"api": {"token": "***"}, "text": "xxx')
    assert shown.endswith("xxx...")
    assert page.all("<dt>Expects</dt><dd>(.*?)</dd>") == ["a success within 90s of each tick"]
    assert "1 value of the payload is hidden because of the key." in page.text


def test_the_use_of_a_limit_is_hidden_from_viewers_of_namespaces(database: str):
    with schedules_in(database) as schedules:
        number = schedules.add("job", limit_key="smtp")
        schedules.conn.execute("select wakeboard.set_limit('smtp', 3)")

    with serving_team(database, "billing") as board:
        text = get(board, f"/schedules/{number}").text

    assert "Limit key smtp" in text
    assert "0 of 3" not in text


def test_the_history_pages_through_all_runs_and_skipped_ticks(database: str, board: str):
    with schedules_in(database) as schedules:
        number = schedules.add("job")
        now = schedules.now()
        same = now - timedelta(minutes=30)
        runs = [schedules.ran(number, same, took=timedelta(seconds=3)) for _ in range(40)]  # all ended at one time
        skipped = [
            schedules.ran(number, now, status="skipped", reason=reason, skipped_until=now, skipped_count=count)
            for reason, count in (("Forbidden", 1), ("TooLate", 12))
        ]

    found: list[str] = []
    pages: list[Answer] = []
    path: str | None = f"/schedules/{number}"
    while path:
        pages.append(get(board, path))
        found += re.findall(r'<td><a href="/runs/(\d+)">', pages[-1].html)
        path = pages[-1].link("next")

    assert sorted(map(int, found)) == sorted([*runs, *skipped])
    assert len(pages) == 2
    assert "12 ticks did not run: it was too late to start." in pages[0].text
    assert "1 tick did not run: the run before was unfinished." in pages[0].text
    only = get(board, f"/schedules/{number}?runs=skipped")
    assert len(only.all(r'<td><a href="/runs/(\d+)">')) == 2
    assert "40 succeeded: median 3.0 s, p95 3.0 s" in pages[0].text
    assert "2 skipped (13 ticks)" in pages[0].text


def test_dead_runs_are_shown_newest_first_with_error_and_duration(database: str, board: str):
    with schedules_in(database) as schedules:
        number = schedules.add("job")
        for minutes in (9, 5):
            schedules.conn.execute("select wakeboard.run_now(%s, reason => 'a test', actor => 'ana')", (number,))
            schedules.conn.execute("set session_replication_role = replica")
            schedules.conn.execute(
                "update wakeboard.job_runs set status = 'dead', started_at = now() - %(ago)s - interval '2 s',"
                " failed_at = now() - %(ago)s, dead_at = now() - %(ago)s, error_type = 'Discard', last_error = 'never'"
                " where dead_at is null",
                {"ago": timedelta(minutes=minutes)},
            )
            schedules.conn.execute("set session_replication_role = origin")

    page = get(board, f"/schedules/{number}")

    newest, oldest = page.all(r'<td><a href="/runs/(\d+)">')
    assert int(newest) > int(oldest)
    assert "Discard: never 2.0 s" in page.text


def test_a_schedule_that_cannot_be_computed_still_has_a_page(database: str, board: str):
    with schedules_in(database) as schedules:
        unknown_zone = schedules.add("zone", time_zone="Mars/Olympus", next_run_at=schedules.now())
        unreadable = schedules.add("cron")
        schedules.conn.execute("update wakeboard.job_definitions set cron_fields = '?' where id = %s", [unreadable])

    assert "Mars/Olympus" in get(board, f"/schedules/{unknown_zone}").text
    assert "were not written by this version" in get(board, f"/schedules/{unreadable}").text
    assert get(board, "/schedules").status == get(board, "/calendar").status == 200


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/schedules/4711", 404),
        ("/schedules/9223372036854775808", 404),
        ("/schedules/billing/none", 404),
        ("/schedules/1?from=soon", 400),
        ("/schedules/1?from=9999-01-01T00:00", 400),
        ("/schedules/1?before=x", 400),
        ("/schedules/1?before=%5B%22soon%22,1%5D", 400),
    ],
)
def test_what_does_not_exist_is_refused_with_a_sentence(database: str, board: str, path: str, status: int):
    with schedules_in(database) as schedules:
        schedules.add("job")

    assert get(board, path).status == status


def ticks_of_viewer(page: Answer) -> list[datetime]:
    """The times that the page shows in the viewer's zone."""
    moments = page.all(
        r'<td data-other-than="[^"]*"><board-time short datetime="([^"]*)"[^>]*>[^<]*</board-time></td>\s*<td class="n'
    )
    return [datetime.fromisoformat(moment).astimezone(UTC) for moment in moments]
