"""Writes the message of an alert for each kind of receiver. No I/O, no clock."""

from __future__ import annotations

import hashlib
import hmac
import json
from dataclasses import dataclass
from datetime import UTC
from email.message import EmailMessage
from typing import TYPE_CHECKING, Any, Literal

from wakeboard.text.sanitize import one_line

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

Notification = Literal["open", "repeat", "resolved", "test"]

_HEADS = {"open": "", "repeat": "still open: ", "resolved": "resolved: ", "test": "test: "}


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertMessage:
    """What to tell about an alert. `alert_id`: 0 for a test. `link`: to the board, or ""."""

    notification: Notification
    alert_id: int
    rule: str
    severity: str
    summary: str
    examples: Sequence[str]
    opened_at: datetime
    resolved_at: datetime | None = None
    link: str = ""

    @property
    def title(self) -> str:
        """One line: "[critical] still open: billing-fails: 12 attempts failed within 1h"."""
        return one_line(f"[{self.severity}] {_HEADS[self.notification]}{self.rule}: {self.summary}")[:500]

    @property
    def text(self) -> str:
        """The title, the examples, since when and the link, on lines of their own. A test: the title and the link."""
        link = [self.link] if self.link else []
        if self.notification == "test":
            return "\n".join([self.title, *link])
        until = f", resolved at {_minute(self.resolved_at)}" if self.resolved_at else ""
        since = f"open since {_minute(self.opened_at)}{until}"
        return "\n".join([self.title, *(f"- {one_line(example)}" for example in self.examples), since, *link])

    @property
    def key(self) -> str:
        """The same for all notifications of an alert, and another one in another installation; one for all tests."""
        if self.notification == "test":
            return "wakeboard-alert-test"
        return f"wakeboard-alert-{self.alert_id}-{self.opened_at.astimezone(UTC):%Y%m%d%H%M%S%f}"


def slack_body(message: AlertMessage) -> dict[str, Any]:
    """For an incoming webhook. Characters that Slack reads as markup are escaped, so that no text can mention users."""
    escaped = message.text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return {"text": escaped}


def webhook_body(message: AlertMessage) -> dict[str, Any]:
    """For any service."""
    return {
        "notification": message.notification,
        "alert": message.alert_id,
        "rule": message.rule,
        "severity": message.severity,
        "summary": message.summary,
        "examples": list(message.examples),
        "opened_at": message.opened_at.astimezone(UTC).isoformat(),
        "resolved_at": message.resolved_at.astimezone(UTC).isoformat() if message.resolved_at else None,
        "link": message.link or None,
    }


def pagerduty_body(message: AlertMessage, routing_key: str) -> dict[str, Any]:
    """An event of the Events API v2."""
    return {
        "routing_key": routing_key,
        "event_action": "resolve" if message.notification == "resolved" else "trigger",
        "dedup_key": message.key,
        "links": [{"href": message.link, "text": "wakeboard"}] if message.link else [],
        "payload": {
            "summary": message.title,
            "source": "wakeboard",
            "severity": message.severity,
            "timestamp": message.opened_at.astimezone(UTC).isoformat(),
            "component": message.rule,
            "custom_details": {"examples": list(message.examples)},
        },
    }


def opsgenie_request(message: AlertMessage) -> tuple[str, dict[str, Any]]:
    """What to append to the url of the Alert API, and the body."""
    if message.notification == "resolved":
        return f"/{message.key}/close?identifierType=alias", {"source": "wakeboard", "note": message.text}
    priority = {"critical": "P1", "warning": "P3"}.get(message.severity, "P5")
    return "", {
        "message": message.title[:130],
        "alias": message.key,
        "description": message.text,
        "priority": priority,
        "source": "wakeboard",
    }


def email_of(message: AlertMessage, sender: str, to: Sequence[str], message_id: str) -> EmailMessage:
    """A mail in plain text. The mails of an alert form a thread."""
    mail = EmailMessage()
    mail["Subject"] = message.title[:200]
    mail["From"] = sender
    mail["To"] = ", ".join(to)
    mail["Message-ID"] = f"<{message_id}@wakeboard>"
    mail["References"] = f"<{message.key}@wakeboard>"
    mail["Auto-Submitted"] = "auto-generated"
    mail.set_content(message.text)
    return mail


def signature(key: str, timestamp: str, body: bytes) -> str:
    """The value of the header X-Wakeboard-Signature: HMAC-SHA256 over `<timestamp>.<body>`, in hex, after "v1="."""
    return "v1=" + hmac.new(key.encode(), timestamp.encode() + b"." + body, hashlib.sha256).hexdigest()


def json_bytes(body: dict[str, Any]) -> bytes:
    """The body of a request."""
    return json.dumps(body).encode()


def _minute(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M} UTC"
