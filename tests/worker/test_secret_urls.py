"""A url that contains a secret: no error, log line or row names a part of it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from wakeboard.settings import read_settings
from wakeboard.testing import Outcome, run_handler
from wakeboard_worker.builtin.http import Http

if TYPE_CHECKING:
    from tests.worker.http_receiver import Receiver

pytestmark = pytest.mark.anyio
SECRET = "Tok-Hush7"


async def call(secret: str, prefix: str, monkeypatch: pytest.MonkeyPatch, **settings: Any) -> Outcome:
    monkeypatch.setenv("WAKEBOARD_SECRET_TOK", secret)
    given = {
        "http_allowed_hosts": "127.0.0.1,localhost,*.invalid",
        "http_allowed_private_networks": "127.0.0.0/8",
    } | settings
    handler = Http(read_settings(**given))
    try:
        return await run_handler(handler, {"url": {"$secret": "tok", "prefix": prefix}})
    finally:
        await handler.close()


def assert_unnamed(outcome: Outcome) -> None:
    assert outcome.error is not None
    text = f"{outcome.error!r} {outcome.error.__cause__!r}".lower()
    assert "hush7" not in text, text


@pytest.mark.parametrize(
    ("secret", "prefix"),
    [
        (SECRET, "http://"),
        (SECRET + ".example.com/hooks", "https://"),
        ("api." + SECRET + ".example.com", "https://"),
        (SECRET + ".example.com", "https://api."),
        (SECRET + ":8443/x", "https://"),
        ("http://" + SECRET + ".example.com", ""),
        ("b\u00fccher-hush7.example", "http://"),
        (SECRET + ".invalid/path", "http://"),  # it is allowed, and does not resolve
        (SECRET + ".invalid/path", "https://"),
        ("a" * 70 + SECRET, "http://"),  # no label is so long
    ],
)
async def test_a_host_that_is_a_secret_is_never_named(
    secret: str, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert_unnamed(await call(secret, prefix, monkeypatch))


async def test_an_address_that_is_a_secret_is_never_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for allowed in ("127.0.0.0/8", "10.0.0.0/8"):  # refused by the list, or no server listens there
        outcome = await call("127.0.0.1:1/x", "http://", monkeypatch, http_allowed_private_networks=allowed)
        assert "127.0.0.1" not in str(outcome.error)


async def test_the_error_of_a_failed_handshake_names_no_host(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcome = await call(f"{receiver.url('/Hush7')}".replace("http://", ""), "https://", monkeypatch)
    assert_unnamed(outcome)
    assert "127.0.0.1" not in str(outcome.error)


@pytest.mark.parametrize(
    "to", [f"http://sub.{SECRET}.example.com/", f"http://{SECRET.upper()}/", "http://derived.example.com/"]
)
async def test_a_redirect_from_a_secret_url_names_no_host(
    to: str, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    prefix, _, path = receiver.url(f"/moved/307?to={to}").partition("/moved")
    outcome = await call("moved" + path, prefix + "/", monkeypatch)
    assert_unnamed(outcome)
    assert "derived" not in str(outcome.error)


async def test_a_host_before_the_secret_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    outcome = await call(SECRET, "https://hooks.example.com/", monkeypatch)
    assert "hooks.example.com:443 is not allowed on this worker" in str(outcome.error)


async def test_a_host_that_a_server_repeats_in_another_case_is_masked(monkeypatch: pytest.MonkeyPatch) -> None:
    from wakeboard.secrets import Secrets

    monkeypatch.setenv("WAKEBOARD_SECRET_TOK", SECRET)
    secrets = Secrets("")
    secrets.resolve({"$secret": "tok"})
    assert secrets.redact(f"no host {SECRET.lower()}.x or {SECRET.upper()}") == "no host [secret tok].x or [secret tok]"
    assert json.dumps(secrets.redact(SECRET.lower()[:6], was_cut=True)) == '""'
