"""What receivers read about an alert."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path

from wakeboard.alerts.rules.messages import (
    AlertMessage,
    email_of,
    opsgenie_request,
    pagerduty_body,
    slack_body,
    webhook_body,
)
from wakeboard.alerts.rules.receivers import SERVICES

LISBON = timezone(timedelta(hours=1))


def message(notification: str = "open", summary: str = "1 run is dead", resolved: bool = False) -> AlertMessage:
    opened_at = datetime(2026, 7, 1, 13, 0, tzinfo=LISBON)
    return AlertMessage(
        notification=notification,  # pyright: ignore[reportArgumentType]
        alert_id=7,
        rule="dead",
        severity="critical",
        summary=summary,
        examples=["<!channel> & co\nFORGED"],
        opened_at=opened_at,
        resolved_at=opened_at + timedelta(minutes=30) if resolved else None,
    )


def test_times_are_in_utc_whatever_the_zone_of_the_database_session():
    assert message(resolved=True).text.endswith("open since 2026-07-01 12:00 UTC, resolved at 2026-07-01 12:30 UTC")
    assert webhook_body(message())["opened_at"] == "2026-07-01T12:00:00+00:00"


def test_text_of_runs_cannot_mention_users_of_slack_or_forge_a_line():
    text = slack_body(message())["text"]
    assert text.splitlines()[1] == "- &lt;!channel&gt; &amp; co FORGED"


def test_a_hostile_summary_is_one_line_of_a_mail_header():
    mail = email_of(message(summary="a\r\nBcc: x@example.com"), "a@example.com", ["b@example.com"], "id")
    assert mail["Subject"] == "[critical] dead: a Bcc: x@example.com"
    assert mail["Bcc"] is None


def test_a_link_is_in_each_form_if_the_board_has_an_address():
    linked = replace(message(), link="https://jobs.example.com/runs?q=status%3Adead&a=1")
    assert linked.text.splitlines()[-1] == linked.link
    assert slack_body(linked)["text"].endswith("/runs?q=status%3Adead&amp;a=1")
    assert webhook_body(linked)["link"] == linked.link
    assert pagerduty_body(linked, "key")["links"] == [{"href": linked.link, "text": "wakeboard"}]
    assert webhook_body(message())["link"] is None
    assert pagerduty_body(message(), "key")["links"] == []


def test_all_notifications_of_an_alert_belong_to_one_incident():
    opened, ended = message(), message("resolved", resolved=True)
    events = [pagerduty_body(each, "key") for each in (opened, message("repeat"), ended)]
    assert [event["event_action"] for event in events] == ["trigger", "trigger", "resolve"]
    (key,) = {event["dedup_key"] for event in events}
    assert opsgenie_request(opened)[1]["alias"] == key
    assert opsgenie_request(ended)[0] == f"/{key}/close?identifierType=alias"
    assert replace(opened, opened_at=opened.opened_at + timedelta(milliseconds=1)).key != key  # another installation's


def test_every_service_is_documented():
    section = (Path(__file__).parents[2] / "docs/alerts.md").read_text("utf-8").partition("\n| service | fields |\n")[2]
    assert re.findall(r"^\| `(\w+)` \|", section.partition("\n\n")[0], re.MULTILINE) == list(SERVICES)
