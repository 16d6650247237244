"""Delivers a notification about an alert to a receiver, for workers and for an operator that finds no worker.

What a run delivers is what a rule, a heartbeat or an administrator's test has recorded for it in the database. Its
payload only shows it to readers, and a replay of the run delivers nothing. If the receiver is a heartbeat, its url is
called.

The database has only the names of receivers. Their addresses and the names of their secrets are in the file that
WAKEBOARD_ALERTS_FILE names; secrets are resolved here, and masked in errors. The administrator chooses the receivers,
not the payload, so there is no list of allowed hosts; redirects are not followed. Requests go through the proxy that
HTTPS_PROXY and NO_PROXY name. Mail goes out by smtplib in a thread, with timeouts: it needs no further library.
"""

from __future__ import annotations

import asyncio
import smtplib
import socket
import ssl
import threading
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, urlencode

from wakeboard import __version__
from wakeboard.alerts.rules.alert_rules import definition_of
from wakeboard.alerts.rules.conditions import page_behind
from wakeboard.alerts.rules.messages import (
    AlertMessage,
    email_of,
    json_bytes,
    opsgenie_request,
    pagerduty_body,
    signature,
    slack_body,
    webhook_body,
)
from wakeboard.alerts.rules.receivers import Email, HeartbeatSpec, Opsgenie, PagerDuty, Slack, Webhook
from wakeboard.errors import Discard, InvalidSchedule, InvalidValue, LeaseLost, RetryAfter, Snooze
from wakeboard.process.egress_proxy import environment_proxy
from wakeboard.process.unreachable_host import unreachable_host
from wakeboard.secrets import Secrets
from wakeboard.text.retry_after import retry_after_s

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from email.message import EmailMessage

    from wakeboard.alerts.queries.deliveries import RecordedDelivery
    from wakeboard.alerts.rules.alert_rules import AlertSpec
    from wakeboard.alerts.rules.messages import Notification
    from wakeboard.alerts.rules.receivers import Receiver
    from wakeboard.engine.run import Run
    from wakeboard.settings import Settings

JOB_TYPE: Final = "wakeboard.alert"
SEND_WITHIN_S: Final = 15.0
WAIT_S: Final = 5.0  # for an earlier notification to the same receiver that is being sent
LONGEST_WAIT_S: Final = 300.0  # whatever Retry-After says: an alert or a heartbeat must not wait for a day
SHOWN_BYTES: Final = 1_000  # of a response, in errors
NOT_RECORDED: Final = (
    "no alert rule, heartbeat or test has recorded this run, so it delivers nothing; send a test message with"
    " `wakeboard alerts test RECEIVER`"
)


class DeliveryFailed(Exception):
    """The receiver did not accept the notification. The run is retried with its backoff."""


class AlertSender:
    """Delivers notifications with the receivers of the file that the settings name."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    async def __call__(self, run: Run) -> dict[str, Any]:
        """Delivers what was recorded for this run, as the handler of its job type."""
        return await self.deliver(run.id, str(run.uuid))

    async def deliver(self, run_id: int, key: str, may_send: Callable[[], bool] = lambda: True) -> dict[str, Any]:
        """Sends what was recorded for the run and returns {sent: true}, or {sent: false, reason} if it is not needed.

        `key`: the Idempotency-Key, the same in each attempt. `may_send` is called just before it is sent. Raises
        Discard, RetryAfter, Snooze, DeliveryFailed, DatabaseUnavailable, and LeaseLost if it may not be sent any more.
        """
        from wakeboard.alerts.queries.deliveries import read_delivery

        found = await read_delivery(self._settings.dsn.get_secret_value(), run_id)
        if found is None:
            raise Discard(NOT_RECORDED)
        if found.verdict == "wait":
            raise Snooze(WAIT_S)
        if found.verdict == "skip":
            return {"sent": False, "reason": "the alert was resolved or silenced before"}
        alerts = self._alerts()
        receiver = self._receiver(alerts, found.receiver)
        secrets = Secrets(self._settings.secrets_dir)
        if isinstance(receiver, HeartbeatSpec):
            sending = _call(receiver, secrets, key)
        elif found.notification == "heartbeat":
            raise DeliveryFailed(
                f"{receiver.name} is a receiver of {self._settings.alerts_file}, no heartbeat any more"
            )
        else:
            message = self._message(found, found.notification, alerts)
            sending = _send(receiver, message, secrets, key)
        if not may_send():
            sending.close()
            raise LeaseLost("the lease of this delivery is over")
        try:
            async with asyncio.timeout(SEND_WITHIN_S):
                await sending
        except Discard as error:  # a secret is missing: it may be mounted later
            raise DeliveryFailed(secrets.redact(str(error))) from None
        except (RetryAfter, DeliveryFailed) as error:
            error.args = tuple(secrets.redact(str(arg)) for arg in error.args)
            raise
        except Exception as error:  # noqa: BLE001 - any error may contain a secret, and is rewritten
            reason = "no answer in time" if isinstance(error, TimeoutError) else _in_words(error)
            raise DeliveryFailed(secrets.redact(f"{receiver.name}: {reason}")) from None
        return {"sent": True}

    def _alerts(self) -> AlertSpec:
        from wakeboard.alerts.file import load_alert_file

        try:
            return load_alert_file(Path(self._settings.alerts_file))
        except InvalidSchedule as error:
            raise DeliveryFailed(str(error)) from None

    def _receiver(self, alerts: AlertSpec, name: str) -> Receiver | HeartbeatSpec:
        from wakeboard.alerts.file import receiver_named

        try:
            return receiver_named(name, alerts, self._settings.alerts_file)
        except InvalidValue as error:  # the file of another worker, or a newer one of this worker, may have it
            raise DeliveryFailed(str(error)) from None

    def _message(self, found: RecordedDelivery, notification: Notification, alerts: AlertSpec) -> AlertMessage:
        if found.opened_at is None:  # a test
            return AlertMessage(
                notification=notification,
                alert_id=0,
                rule="test",
                severity="info",
                summary="notifications of wakeboard arrive here",
                examples=(),
                opened_at=datetime.now(UTC),
                link=self._link("/alerts"),
            )
        return AlertMessage(
            notification=notification,
            alert_id=found.alert_id,
            rule=found.rule,
            severity=found.severity,
            summary=found.summary,
            examples=found.examples,
            opened_at=found.opened_at,
            resolved_at=found.resolved_at,
            link=self._link(*_page_of(found, alerts)),
        )

    def _link(self, path: str, query: Mapping[str, str] | None = None) -> str:
        return link_to(self._settings.board_url.rstrip("/"), path, query or {})


def _page_of(found: RecordedDelivery, alerts: AlertSpec) -> tuple[str, Mapping[str, str]]:
    """The page with what is behind an alert; once it is resolved, or without its rule, that of the alerts."""
    rule = next((rule for rule in alerts.rules if rule.name == found.rule), None)
    if rule is None or found.opened_at is None or found.resolved_at is not None:
        return "/alerts", {}
    return page_behind(definition_of(rule), found.opened_at)


def link_to(board_url: str, path: str, query: Mapping[str, str]) -> str:
    """The address of a page. `board_url`: of the board, without a slash at its end; "" gives ""."""
    if not board_url:
        return ""
    return board_url + quote(path, safe="/") + (f"?{urlencode(query)}" if query else "")


async def _call(heartbeat: HeartbeatSpec, secrets: Secrets, key: str) -> None:
    await _request("GET", _url(heartbeat.url, secrets), None, {}, key)


async def _send(receiver: Receiver, message: AlertMessage, secrets: Secrets, key: str) -> None:
    service = receiver.service
    match service:
        case Slack():
            await _post(_url(service.url, secrets), json_bytes(slack_body(message)), {}, key)
        case Webhook():
            body = json_bytes(webhook_body(message))
            timestamp = str(int(datetime.now(UTC).timestamp()))
            headers = {"X-Wakeboard-Timestamp": timestamp}
            if service.signing_key is not None:
                headers["X-Wakeboard-Signature"] = signature(secrets.resolve(service.signing_key), timestamp, body)
            await _post(_url(service.url, secrets), body, headers, key)
        case PagerDuty():
            event = pagerduty_body(message, secrets.resolve(service.routing_key))
            await _post(_url(service.url, secrets), json_bytes(event), {}, key)
        case Opsgenie():
            path, alert = opsgenie_request(message)
            headers = {"Authorization": f"GenieKey {secrets.resolve(service.api_key)}"}
            await _post(_url(service.url, secrets) + path, json_bytes(alert), headers, key)
        case Email():
            password = secrets.resolve(service.password) if service.password is not None else ""
            mail = email_of(message, service.sender, service.to, key)
            await _mail(service, password, mail)


def _in_words(error: Exception) -> str:
    return unreachable_host(error) or f"{type(error).__name__}: {error}"


def _url(written: Any, secrets: Secrets) -> str:
    """The url. Errors mask each part of a secret one: a receiver may repeat any of them."""
    url = str(secrets.resolve(written))
    if isinstance(written, dict):
        try:
            secrets.hide_url(url, "of the url")
        except ValueError:
            raise DeliveryFailed("the secret of the url is not a url") from None
    return url


async def _post(url: str, body: bytes, headers: dict[str, str], key: str) -> None:
    await _request("POST", url, body, headers | {"Content-Type": "application/json"}, key)


async def _request(method: str, url: str, body: bytes | None, headers: dict[str, str], key: str) -> None:
    """Raises DeliveryFailed or RetryAfter unless the answer is 2xx."""
    import aiohttp

    proxy = environment_proxy(url)  # with trust_env aiohttp would also take a login from ~/.netrc
    everywhere = {"Idempotency-Key": key, "User-Agent": f"wakeboard/{__version__}"}
    async with (
        aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar(), trust_env=False) as session,
        session.request(
            method, url, data=body, headers=everywhere | headers, proxy=proxy, allow_redirects=False
        ) as response,
    ):
        if response.ok and response.status < 300:  # noqa: PLR2004 - a redirect is not followed
            return
        answer = (await response.content.read(SHOWN_BYTES)).decode("utf-8", "replace")
        reason = f"the receiver answered {response.status}: {answer.strip()}".rstrip(": ")
        seconds = retry_after_s(response.headers.get("Retry-After"), datetime.now(UTC))
        if seconds is not None:
            raise RetryAfter(min(seconds, LONGEST_WAIT_S), reason)
        raise DeliveryFailed(reason)


async def _mail(service: Email, password: str, mail: EmailMessage) -> None:
    """Sends a mail in a thread. Its connection ends with the call: else an endless answer would keep the thread."""
    opened: list[_Smtp] = []
    stopped = threading.Event()
    try:
        await asyncio.to_thread(_send_mail, service, password, mail, opened, stopped)
    finally:
        stopped.set()
        for server in opened:
            server.end_wait()


class _Smtp(smtplib.SMTP):
    """A connection that another thread stops by `stopped` and `end_wait`. `opened` gets it before it connects."""

    def __init__(self, opened: list[_Smtp], stopped: threading.Event, *args: Any, **named: Any) -> None:
        self._stopped = stopped
        opened.append(self)
        super().__init__(*args, **named)

    def end_wait(self) -> None:
        """Ends what the other thread waits for."""
        if self.sock is not None:
            with suppress(OSError):  # it has ended by itself
                self.sock.shutdown(socket.SHUT_RDWR)

    def getreply(self) -> tuple[int, bytes]:
        if self._stopped.is_set():
            self.close()
            raise smtplib.SMTPServerDisconnected("no answer in time")
        return super().getreply()


class _SmtpOverTls(_Smtp, smtplib.SMTP_SSL):
    pass


def _send_mail(
    service: Email, password: str, mail: EmailMessage, opened: list[_Smtp], stopped: threading.Event
) -> None:
    context = ssl.create_default_context()
    where = {"host": service.host, "port": service.port, "timeout": SEND_WITHIN_S}
    if service.tls == "tls":
        server = _SmtpOverTls(opened, stopped, **where, context=context)
    else:
        server = _Smtp(opened, stopped, **where)
    with server:
        if service.tls == "starttls":
            server.starttls(context=context)
        if service.user is not None:
            server.login(service.user, password)
        server.send_message(mail)
