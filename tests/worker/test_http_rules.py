"""What `http` decides without a server: where it may go, how long to wait, what a redirect may carry."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from wakeboard.errors import Discard, InvalidSettings
from wakeboard.secrets import Secrets
from wakeboard.settings import read_settings
from wakeboard.text.retry_after import retry_after_s
from wakeboard_worker.builtin import builtin_handlers
from wakeboard_worker.builtin.allowed_hosts import AllowedHosts
from wakeboard_worker.builtin.http_request import redirected, request_of

if TYPE_CHECKING:
    from pathlib import Path

LIST = [
    "api.example.com",
    "*.Example.org",
    "hooks.example.net:8443",
    "10.1.2.3",
    "[2001:db8:0::1]:443",
    "bücher.example",
    "db",
]


@pytest.mark.parametrize(
    ("host", "port", "allowed"),
    [
        ("api.example.com", 443, True),
        ("API.example.COM", 1, True),
        ("api.example.com.", 443, True),
        ("v2.api.example.com", 443, False),
        ("api.example.com.evil.net", 443, False),
        ("evil-api.example.com", 443, False),
        ("a.example.org", 80, True),
        ("a.b.example.org", 80, True),
        ("example.org", 80, False),
        ("evilexample.org", 80, False),
        ("hooks.example.net", 8443, True),
        ("hooks.example.net", 443, False),
        ("10.1.2.3", 80, True),
        ("10.1.2.30", 80, False),
        ("2001:db8::1", 443, True),
        ("2001:DB8::1", 80, False),
        ("xn--bcher-kva.example", 443, True),
        ("db", 80, True),
    ],
)
def test_the_list_names_hosts_and_ports(host: str, port: int, allowed: bool) -> None:
    assert AllowedHosts(LIST, []).allows_name(host, port) == allowed


@pytest.mark.parametrize(
    "entry", ["*", "*.", "https://api.example.com", "api.example.com/path", "a:b", "a:65536", "::1", "a b", "", "[zz]"]
)
def test_an_entry_that_names_nothing_stops_the_worker_with_a_sentence(entry: str) -> None:
    with pytest.raises(InvalidSettings, match=r"WAKEBOARD_HTTP_ALLOWED_HOSTS.* write for example `api\.example\.com`"):
        builtin_handlers(read_settings(http_allowed_hosts=[entry]))


def test_a_network_that_is_none_stops_the_worker_with_a_sentence() -> None:
    with pytest.raises(
        InvalidSettings, match=r"WAKEBOARD_HTTP_ALLOWED_PRIVATE_NETWORKS.*; write for example 10\.1\.0\.0/16"
    ):
        builtin_handlers(read_settings(http_allowed_hosts="a", http_allowed_private_networks="10.1.0.0/99"))


PUBLIC = [
    "93.184.215.14",
    "2606:2800:21f:cb07:6820:80da:af6b:8b2c",
    "2002:5db8:d70e::1",
    "64:ff9b::5db8:d70e",
    "168.63.129.15",
    "2001:4860:4860::8888",
]
OTHERS = [
    "127.0.0.1",
    "10.0.0.1",
    "172.16.0.1",
    "192.168.1.1",
    "169.254.169.254",
    "100.64.0.1",
    "0.0.0.0",
    "224.0.0.1",
    "240.0.0.1",
    "255.255.255.255",
    "192.0.0.192",
    "192.0.0.8",
    "192.0.2.1",
    "192.88.99.1",
    "168.63.129.16",
    "100.100.100.200",
    "198.51.100.1",
    "203.0.113.1",
    "fd00:ec2::254",
    "64:ff9b::168.63.129.16",
    "64:ff9b::169.254.169.254",
    "::ffff:192.0.0.192",
    "::ffff:0:169.254.169.254",
    "2002:a83f:8110::1",
    "2606:4700::5efe:169.254.169.254",
    "2606:4700::200:5efe:168.63.129.16",
    "2001:db8::1",
    "2001:2::1",
    "2001:10::1",
    "3fff::1",
    "5f00::1",
    "198.18.0.1",
    "::",
    "::1",
    "::127.0.0.1",
    "::ffff:127.0.0.1",
    "::ffff:10.0.0.1",
    "64:ff9b::10.0.0.1",
    "64:ff9b:1::1",
    "2002:7f00:1::1",
    "2001:0:4136:e378:8000:63bf:3fff:fdd2",
    "fe80::1%eth0",
    "fc00::1",
    "fec0::1",
    "ff02::1",
    "100::1",
    "4000::1",
]


def test_public_addresses_are_open() -> None:
    assert [text for text in PUBLIC if not AllowedHosts([], []).allows_address(text)] == []


def test_all_others_are_closed_unless_their_network_is_named() -> None:
    assert [text for text in OTHERS if AllowedHosts([], []).allows_address(text)] == []
    assert [text for text in OTHERS if not AllowedHosts([], ["0.0.0.0/0", "::/0"]).allows_address(text)] == []


def test_a_named_network_opens_itself_however_it_is_written() -> None:
    allowed = AllowedHosts([], ["10.1.0.0/16"])
    assert [allowed.allows_address(text) for text in ("10.1.9.9", "::ffff:10.1.9.9", "10.2.0.1")] == [True, True, False]


NOW = datetime(2026, 1, 5, 8, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("7", 7.0),
        (" 7 ", 7.0),
        ("999999999", 86_400.0),
        ("9" * 400, 86_400.0),
        ("Mon, 05 Jan 2026 08:01:30 GMT", 90.0),
        ("Monday, 05-Jan-26 08:01:30 GMT", 90.0),
        ("Mon, 05 Jan 2026 09:01:30 +0100", 90.0),
        ("Fri, 05 Jan 2029 08:00:00 GMT", 86_400.0),
        ("Mon, 05 Jan 2026 07:00:00 GMT", None),
        ("0", None),
        ("-1", None),
        ("soon", None),
        ("٣", None),
        ("²", None),
        ("", None),
        (None, None),
    ],
)
def test_retry_after_is_seconds_or_a_date_of_at_most_a_day(header: str | None, seconds: float | None) -> None:
    assert retry_after_s(header, NOW) == seconds


def test_a_redirect_never_leaves_tls() -> None:
    secrets = Secrets("")
    request = request_of({"url": "https://api.example.com/"}, "key", secrets)
    with pytest.raises(Discard, match="from https to http"):
        redirected(request, 307, "http://api.example.com/", secrets)


def test_a_secret_never_follows_a_redirect_to_another_host(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("hush-hush")
    secrets, secret = Secrets(str(tmp_path)), {"$secret": "key"}
    request = request_of({"url": "https://a.example/", "headers": {"Accept": secret}}, "key", secrets)
    assert "Accept" in redirected(request, 307, "/there", secrets).headers
    assert "Accept" not in redirected(request, 307, "https://b.example/", secrets).headers
    request = request_of({"url": "https://a.example/", "body": {"token": secret}}, "key", secrets)
    with pytest.raises(Discard, match="redirected a body with a secret to another host"):
        redirected(request, 307, "https://b.example/", secrets)
