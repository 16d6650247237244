"""Notifications about alerts arrive at real receivers on loopback: once, retried, and in order."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import ssl
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeAlias

import pytest
import yaml
from aiosmtpd.smtp import SMTP, AuthResult

from testbed.cluster.certificates import Authority
from tests.schedules.schedules import connected, rows
from wakeboard.alerts import sender as alert_sender
from wakeboard.alerts.evaluate import evaluate_alerts
from wakeboard.alerts.file import load_alert_file
from wakeboard.alerts.sender import AlertSender
from wakeboard.settings import read_settings
from wakeboard.testing import FakeRun, run_handler

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from aiosmtpd.smtp import Envelope

    from tests.worker.conftest import Store
    from tests.worker.http_receiver import Receiver
    from wakeboard.engine.maintenance_api import MaintenanceStore
    from wakeboard.testing import Outcome

pytestmark = pytest.mark.anyio
Deliver: TypeAlias = "Callable[..., Awaitable[Outcome]]"


def alerts_file(folder: Path, heartbeats: list[dict[str, Any]] | None = None, **service: Any) -> Path:
    """A file with the rule `dead: 1`, which is announced to the receiver `team`."""
    rule = {"name": "dead", "dead": 1, "receivers": ["team"], "repeatInterval": "1h"}
    spec = {"rules": [rule], "receivers": [{"name": "team", **service}], "heartbeats": heartbeats or []}
    path = folder / "alerts.yaml"
    path.write_text(yaml.safe_dump({"apiVersion": "wakeboard.dev/v1alpha1", "kind": "AlertRules", "spec": spec}))
    return path


@pytest.fixture
def deliver(database: str) -> Deliver:
    """Sends a test message, as a worker does."""

    async def send(file: Path, receiver: str = "team") -> Outcome:
        async with connected(database) as store:
            ((run_id,),) = await rows(store, "select send_test_notification(%s)", receiver)
        return await run_handler(AlertSender(read_settings(alerts_file=str(file), dsn=database)), FakeRun(id=run_id))

    return send


async def test_a_webhook_gets_a_signed_document(
    deliver: Deliver, receiver: Receiver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("WAKEBOARD_SECRET_SIGNING", "key")
    file = alerts_file(tmp_path, webhook={"url": receiver.url("/hook"), "signingKey": {"$secret": "signing"}})
    assert (await deliver(file)).result == {"sent": True}
    (request,), (body,) = receiver.seen, receiver.bodies
    assert json.loads(body)["notification"] == "test"
    signed = f"{request.headers['X-Wakeboard-Timestamp']}.{body}".encode()
    expected = hmac.new(b"key", signed, hashlib.sha256).hexdigest()
    assert request.headers["X-Wakeboard-Signature"] == f"v1={expected}"


async def test_an_alert_leaves_through_the_proxy_of_the_environment(
    deliver: Deliver, receiver: Receiver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("http_proxy", receiver.url(""))
    monkeypatch.setenv("no_proxy", "hooks.internal")
    assert (await deliver(alerts_file(tmp_path, webhook={"url": "http://hooks.invalid/alert"}))).result
    assert receiver.seen[0].host == "hooks.invalid"
    direct = await deliver(alerts_file(tmp_path, webhook={"url": "http://hooks.internal/alert"}))
    assert "hooks.internal:80 cannot be reached: " in str(direct)
    assert len(receiver.seen) == 1


async def test_a_delivery_without_its_secret_is_retried(deliver: Deliver, receiver: Receiver, tmp_path: Path):
    secret = {"$secret": "not-mounted-yet"}
    beat = {"name": "watchdog", "url": secret}
    file = alerts_file(tmp_path, [beat], webhook={"url": receiver.url("/hook"), "signingKey": secret})
    for name in ("team", "watchdog"):
        outcome = await deliver(file, name)
        assert outcome.status == "failed"
        assert "has no secret 'not-mounted-yet'" in str(outcome.error)


async def test_each_service_gets_its_own_form(
    deliver: Deliver, receiver: Receiver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("WAKEBOARD_SECRET_KEY", "s3cret-key")
    services: list[dict[str, Any]] = [
        {"slack": {"url": receiver.url("/slack")}},
        {"pagerduty": {"url": receiver.url("/pagerduty"), "routingKey": {"$secret": "key"}}},
        {"opsgenie": {"url": receiver.url("/opsgenie"), "apiKey": {"$secret": "key"}}},
    ]
    for service in services:
        assert (await deliver(alerts_file(tmp_path, **service))).result == {"sent": True}
    slack, pagerduty, opsgenie = (json.loads(body) for body in receiver.bodies)
    assert slack["text"].startswith("[info] test: test: notifications of wakeboard arrive here")
    assert (pagerduty["event_action"], pagerduty["routing_key"]) == ("trigger", "s3cret-key")
    assert opsgenie["priority"] == "P5"
    assert receiver.seen[2].headers["Authorization"] == "GenieKey s3cret-key"


async def test_an_error_of_a_receiver_is_a_failed_attempt_without_secrets(
    deliver: Deliver, receiver: Receiver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("WAKEBOARD_SECRET_SLACK", receiver.url("/path/T0KEN"))
    for url in (receiver.url("/404"), receiver.url("/moved/307?to=/hook"), {"$secret": "slack"}):
        outcome = await deliver(alerts_file(tmp_path, slack={"url": url}))
        assert outcome.status == "failed"
        assert "T0KEN" not in str(outcome)  # the server repeats the path
    for url in ("/path/invoke?code=T0KEN", "/path/a/../T0KEN~%7E", "/path/T0KEN-%41", "/broken?t=T0KEN", "/busy?T0KEN"):
        monkeypatch.setenv("WAKEBOARD_SECRET_SLACK", receiver.url(url, "LOCALHOST"))
        outcome = await deliver(alerts_file(tmp_path, slack={"url": {"$secret": "slack"}}))
        assert outcome.status != "succeeded"
        assert "T0KEN" not in f"{outcome} {outcome.error}", url
    for url in (
        "http://us3r:T0KEN@127.0.0.1:1/x",
        "http://T0KEN\u2100.example/",
        "http://[::1/T0KEN",
        "http://xn--T0KENT0KEN-.example/",
    ):
        monkeypatch.setenv("WAKEBOARD_SECRET_SLACK", url)
        outcome = await deliver(alerts_file(tmp_path, slack={"url": {"$secret": "slack"}}))
        assert outcome.status == "failed"
        assert "t0ken" not in f"{outcome} {outcome.error}".lower(), url
    monkeypatch.setenv("WAKEBOARD_SECRET_SLACK", receiver.url(""))  # without a path
    outcome = await deliver(alerts_file(tmp_path, slack={"url": {"$secret": "slack"}}))
    assert str(outcome).count("[secret") <= 1
    monkeypatch.setenv("WAKEBOARD_SECRET_SLACK", "http://127.0.0.1:1/services/T0KEN")
    outcome = await deliver(alerts_file(tmp_path, slack={"url": {"$secret": "slack"}}))
    assert outcome.status == "failed"
    assert "T0KEN" not in str(outcome)


async def test_no_receiver_delays_its_next_notification_for_long(deliver: Deliver, receiver: Receiver, tmp_path: Path):
    for header, delay_s in (("7", 7), ("86400", 300)):
        outcome = await deliver(alerts_file(tmp_path, slack={"url": receiver.url(f"/busy?for={header}")}))
        assert (outcome.status, outcome.delay_s) == ("failed", delay_s)


async def test_a_delivery_to_a_receiver_that_the_file_lacks_is_retried(deliver: Deliver, tmp_path: Path):
    file = alerts_file(tmp_path, slack={"url": "http://127.0.0.1:1/"})
    outcome = await deliver(file, "x")
    assert outcome.status == "failed"
    assert f"{file} has no receiver 'x'; its receivers: team" in str(outcome.error)


class Mailbox:
    """Accepts mails. The method's name is aiosmtpd's."""

    def __init__(self) -> None:
        self.mails: list[str] = []

    async def handle_DATA(self, _server: SMTP, _session: object, envelope: Envelope) -> str:  # noqa: N802
        self.mails.append((envelope.original_content or b"").decode())
        return "250 accepted"


@pytest.fixture
def certificate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ssl.SSLContext:
    """Of a server on 127.0.0.1. Clients of this process trust the authority that issued it."""
    authority = Authority.make(tmp_path / "authority")
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.certificate))
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(*authority.issue("mail", "mail", hosts=["127.0.0.1"]))
    return context


def authenticated(_server: object, _session: object, _envelope: object, _mechanism: str, given: Any) -> AuthResult:
    return AuthResult(success=(given.login, given.password) == (b"robot", b"s3cret-mail"), handled=False)


@pytest.mark.parametrize("tls", ["none", "starttls", "tls"])
async def test_a_mail_is_sent(
    deliver: Deliver, tmp_path: Path, certificate: ssl.SSLContext, monkeypatch: pytest.MonkeyPatch, tls: str
):
    monkeypatch.setenv("WAKEBOARD_SECRET_MAIL", "s3cret-mail")
    mailbox, login = Mailbox(), {} if tls == "none" else {"user": "robot", "password": {"$secret": "mail"}}

    def protocol() -> SMTP:
        if tls == "starttls":
            return SMTP(
                mailbox, authenticator=authenticated, tls_context=certificate, require_starttls=True, auth_required=True
            )
        return SMTP(mailbox, authenticator=authenticated, auth_require_tls=False)

    listening = asyncio.get_running_loop().create_server(
        protocol, "127.0.0.1", 0, ssl=certificate if tls == "tls" else None
    )
    async with await listening as server:
        port = server.sockets[0].getsockname()[1]
        mail = {
            "host": "127.0.0.1",
            "port": port,
            "tls": tls,
            "from": "a@example.com",
            "to": ["b@example.com"],
            **login,
        }
        assert (await deliver(alerts_file(tmp_path, email=mail))).result == {"sent": True}
        if login:
            monkeypatch.setenv("WAKEBOARD_SECRET_MAIL", "an0ther")
            refused = await deliver(alerts_file(tmp_path, email=mail))
            assert refused.status == "failed"
            assert "535" in str(refused)
            assert "an0ther" not in str(refused)
    (sent,) = mailbox.mails
    assert "Subject: [info] test: test: notifications of wakeboard arrive here" in sent
    assert "To: b@example.com" in sent


async def test_a_mail_server_that_never_stops_answering_keeps_no_thread(
    deliver: Deliver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(alert_sender, "SEND_WITHIN_S", 0.5)
    left = asyncio.Event()

    async def serve(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            while True:
                writer.write(b"220-wait\r\n")  # a line of a reply that goes on
                await writer.drain()
                await asyncio.sleep(0.02)
        left.set()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        mail = {"host": "127.0.0.1", "port": port, "tls": "none", "from": "a@example.com", "to": ["b@example.com"]}
        outcome = await deliver(alerts_file(tmp_path, email=mail))
        assert "no answer in time" in str(outcome)
        async with asyncio.timeout(10):
            await left.wait()


# -- with the store ----------------------------------------------------------------------------------------------------


async def evaluate(store: MaintenanceStore, file: Path) -> None:
    spec = load_alert_file(file)
    await rows(store, "update alert_rules set evaluated_at = evaluated_at - interval '2 minutes'")
    await evaluate_alerts(store, spec.resolved_rules(), spec.queue)


async def pass_hours(store: MaintenanceStore, hours: int) -> None:
    for column in ("notified_at", "seen_at", "opened_at"):
        await rows(store, f"update alerts set {column} = {column} - make_interval(hours => %s)", hours)
    await rows(store, "update job_runs set run_at = now() - interval '1 s' where status in ('queued', 'failed')")


def notifications(receiver: Receiver) -> list[str]:
    return [json.loads(body)["notification"] for body in receiver.bodies]


async def test_an_outage_is_announced_repeated_and_resolved_by_runs_of_a_worker(
    store: Store, receiver: Receiver, tmp_path: Path
):
    file = alerts_file(tmp_path, webhook={"url": receiver.url("/hook")})
    async with connected(store.dsn) as other, connected(store.dsn) as database:
        (run,) = store.enqueue("x")
        await rows(database, "update job_runs set status = 'dead', dead_at = now()")
        for _ in range(3):
            await asyncio.gather(evaluate(database, file), evaluate_alerts(other, load_alert_file(file).rules))
        wake = lambda: asyncio.to_thread(store.wake, alerts_file=file)  # noqa: E731 - repeated below
        await wake()
        assert notifications(receiver) == ["open"]
        await pass_hours(database, 1)
        await evaluate(database, file)
        await wake()
        await rows(database, "select discard(array[%s::bigint])", run)
        await pass_hours(database, 1)
        await evaluate(database, file)
        await wake()
        assert await rows(database, "select count(*) from job_runs") == [(0,)]
    assert notifications(receiver) == ["open", "repeat", "resolved"]
    assert len({json.loads(body)["alert"] for body in receiver.bodies}) == 1
    assert json.loads(receiver.bodies[2])["resolved_at"]


async def test_a_receiver_that_failed_for_an_hour_gets_one_opening(store: Store, receiver: Receiver, tmp_path: Path):
    failing = alerts_file(tmp_path, webhook={"url": receiver.url("/503")})
    async with connected(store.dsn) as database:
        store.enqueue("x")
        await rows(database, "update job_runs set status = 'dead', dead_at = now()")
        await evaluate(database, failing)
        for _ in range(2):
            await asyncio.to_thread(store.wake, alerts_file=failing)
            await pass_hours(database, 1)  # the repeat is due, but the opening is still on its way
            await evaluate(database, failing)
        assert await rows(database, "select count(*) from alert_deliveries") == [(1,)]
        assert await rows(database, "select status::text from job_runs where job_type = 'wakeboard.alert'") == [
            ("failed",)
        ]
        receiver.bodies.clear()
        working = alerts_file(tmp_path, webhook={"url": receiver.url("/hook")})
        await asyncio.to_thread(store.wake, alerts_file=working)
    assert notifications(receiver) == ["open"]
