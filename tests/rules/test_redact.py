from __future__ import annotations

import time
from typing import Any, Literal

import pytest

from wakeboard.rules.redact import MARGIN, redact

MASKED = [
    ("postgresql://app:hunter2@db.example.com:5432/shop", "postgresql://app:***@db.example.com:5432/shop"),
    ("could not connect to postgres://u:p%40ss@h/d now", "could not connect to postgres://u:***@h/d now"),
    ("postgresql://u:p@ss/wo:rd@db/shop", "postgresql://u:***@db/shop"),
    ('postgresql://u:pa"ss@db/shop', "postgresql://u:***@db/shop"),
    ("redis://:s3cret@cache:6379/0", "redis://:***@cache:6379/0"),
    ("https://x-access-token:abc@github.com/a/b", "https://x-access-token:***@github.com/a/b"),
    ("postgresql://u:12345678@db/shop", "postgresql://u:***@db/shop"),
    ("host=db password=hunter2 dbname=shop", "host=db password=*** dbname=shop"),
    ("password='two words' host=db", "password=*** host=db"),
    (r"password='it\'s here' host=db", "password=*** host=db"),
    ("PGPASSWORD=hunter2", "PGPASSWORD=***"),
    ("Password=hunter2;Server=x", "Password=***"),
    ("password: hunter2", "password: ***"),
    ("password: swordfish", "password: ***"),
    ("{'password': 'hunter2', 'user': 'me'}", "{'password': ***, 'user': 'me'}"),
    ('{"client_secret": "hunter2", "a": 1}', '{"client_secret": ***, "a": 1}'),
    (r'"{\"token\": \"hunter2\", \"a\": 1}"', r'"{\"token\": ***, \"a\": 1}"'),
    ("GET https://a/b?token=abc123&page=2", "GET https://a/b?token=***&page=2"),
    ("?X-Amz-Signature=abcdef0123&x=1", "?X-Amz-Signature=***&x=1"),
    ("blob?sv=2020&sig=abc%3D", "blob?sv=2020&sig=***"),
    ("api_key=abc-def", "api_key=***"),
    ("x-api-key: abc-def", "x-api-key: ***"),
    ("AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI/K7MDENG", "AWS_SECRET_ACCESS_KEY=***"),
    ("key AKIAIOSFODNN7EXAMPLE is not known", "key *** is not known"),
    ("Authorization: Bearer abc.def.ghi\nHost: x", "Authorization: ***\nHost: x"),
    ("{'Authorization': 'Basic dXNlcjpwYXNz', 'Accept': '*'}", "{'Authorization': ***, 'Accept': '*'}"),
    ("Set-Cookie: session=abc; Path=/", "Set-Cookie: ***"),
    ("sent Bearer a1b2c3d4e5f6 to it", "sent Bearer *** to it"),
    ("ghp_abcdefghijklmnopqrstuvwxyz0123456789", "***"),
    ("xoxb-1234567890-abcdefghij", "***"),
    ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl", "***"),
    ("https://hooks.slack.com/services/T0/B0/XYZ failed", "https://hooks.slack.com/services/*** failed"),
    ("-----BEGIN RSA PRIVATE KEY-----\nMIIE\nabc\n-----END RSA PRIVATE KEY-----\nafter", "***\nafter"),
    ("-----BEGIN PRIVATE KEY-----\nMIIE and cut", "***"),
    ("connect(password='hunter2', token='abc')", "connect(password=***, token=***)"),
    ("DB_PASS=hunter2", "DB_PASS=***"),
    ("smtp_pass: hunter2", "smtp_pass: ***"),
    ("dbPass=hunter2 host=db", "dbPass=*** host=db"),
    ("user=me pass=admin", "user=me pass=***"),
    ("pass: swordfish", "pass: ***"),
    ("{'user': 'me', 'pass': 'hunter2'}", "{'user': 'me', 'pass': ***}"),
    ('{"pass": "1234"}', '{"pass": ***}'),
    ("secretAccessKey: wJalrXUtnFEMI", "secretAccessKey: ***"),
    ('"secretAccessKey": "wJalrXUtnFEMI"', '"secretAccessKey": ***'),
    ("aws_secret_access_key = wJalrXUtnFEMI", "aws_secret_access_key = ***"),
    ("client_secret=hunter", "client_secret=***"),
    ("client-secret: hunter", "client-secret: ***"),
    ("X-Auth-Token: hunter\nHost: x", "X-Auth-Token: ***\nHost: x"),
    ("AccountName=a;AccountKey=aGk=", "AccountName=a;AccountKey=***"),
    ("passcode=1234", "passcode=***"),
    ("https://a1b2c3d4e5f6a7b8c9d0@github.com/a/b", "https://***@github.com/a/b"),
    ("https://xy_a1b2c3d4e5f6a7b8c9d0@github.com/a/b", "https://***@github.com/a/b"),
    ("https://3f2504e0-4f89-11d3-9a0c-0305e82c3301@dev.azure.com/x", "https://***@dev.azure.com/x"),
    ("password={$secret:name,token=hunter2}", "password={$secret:name,token=***"),
    ("X-Vault-Token: hvs.CAESIJ3kq", "X-Vault-Token: ***"),
    ("hvs.CAESIJ3kqabcdefghijklmnop is no token", "*** is no token"),
    ("token: MTk4.Cl2FMQ.Zn", "token: ***"),
    ("DB_PASSWORD: Summer.Rain42", "DB_PASSWORD: ***"),
    ("password: Zq9(hunter2", "password: ***"),
    ("DETAIL:  Key (api_token)=(hunter2) already exists.", "DETAIL:  Key (api_token)=(*** already exists."),
    ('{"name":"DB_PASSWORD","value":"hunter2"}', '{"name":"DB_PASSWORD","value":***}'),
    ("[(b'x-api-key', b'hunter2'), (b'a', b'b')]", "[(b'x-api-key', b***), (b'a', b'b')]"),
    ("(b'Set-Cookie', b'sid=hunter2')", "(b'Set-Cookie', b***)"),
    ("a password%3Dhunter2%26a%3Db b", "a password%3D*** b"),
    ("mysql --password hunter2 -h db", "mysql --password *** -h db"),
    ("<db:password>hunter2</db:password>", "<db:password>***</db:password>"),
    ("-----BEGIN PGP PRIVATE KEY BLOCK-----\nabc\n-----END PGP PRIVATE KEY BLOCK-----\nafter", "***\nafter"),
    ("https://discord.com/api/webhooks/12/XYZ failed", "https://discord.com/api/webhooks/*** failed"),
    ("https://api.telegram.org/bot12:XYZ/send failed", "https://api.telegram.org/bot*** failed"),
]

LEFT_ALONE = [
    "ConnectionError: the bank's server is still starting",
    "cannot connect to http://example.com:8080/a@b",
    "http://example.com:8080/path?mail=a@b.example",
    "postgresql://owner@shop-db/shop",
    "password: must be at least 8 characters",
    "Unexpected token } in JSON at position 3",
    "unexpected token: '}'",
    'password authentication failed for user "app"',
    "this process has no secret 'api-key': mount a file of that name, or set WAKEBOARD_SECRET_API_KEY",
    'a secret is written {"$secret": "NAME"}',
    "write for example password: {$secret: alerts-password}",
    '{"password": {"$secret": "alerts-password"}}',
    "max_tokens=300 and token_count=5",
    "idempotency_key=order-42",
    "PWD=/home/app",
    "token=None password=null secret=",
    "    token = make_token(user)",
    "    password = settings.password",
    "Bearer authentication is needed",
    "12:30:45 a:b@c",
    "PermissionError: not approved; type: touch examples/out/approved",
    "KeyError: 'password'",
    "the primary key: orders_pkey",
    "compass: north",
    "bypass=yes and bypass: yes",
    "pass: 3 of 4 tests",
    "pass: all but one",
    "pass: ok",
    "pass=12 fail=3",
    "Pass: 4/4, 98.5%",
    "passed=3 passes: 4 passport: AB123",
    "password reset is not possible",
    "client_secret: is missing",
    "api_key: field required",
    "primary_key: orders",
    "ssh://git@github.com/a/b",
    "postgres://postgres@db/x",
    "postgresql://wakeboard_worker_v2_readonly@shop-db/shop",
    "postgresql://application-2026-reporting@shop-db/shop",
    "https://example.com/a1b2c3d4e5f6a7b8c9d0/@me",
    "commit 3f786850e387550fdab836ed7e6dc881de23001b",
    "the option --password is missing",
    "missing: ['password', 'token', 'user']",
    "Key (order_id)=(42) already exists.",
    "    token = session.token",
]


@pytest.mark.parametrize(("text", "shown"), MASKED)
def test_what_looks_like_a_credential_is_masked(text: str, shown: str) -> None:
    assert redact(text) == shown


@pytest.mark.parametrize("text", LEFT_ALONE)
def test_ordinary_errors_stay_as_they_are(text: str) -> None:
    assert redact(text) == text


@pytest.mark.parametrize("text", [text for text, _ in MASKED])
def test_masking_twice_changes_nothing(text: str) -> None:
    assert redact(redact(text)) == redact(text)


HOSTILE = [
    "://",
    "://:",
    "://a:",
    "://a1",
    "://" + "a1" * 200,
    "pass",
    "DB_PASS: a ",
    "a_key: a ",
    "password=",
    "password: ",
    "password: " + "none " * 200,
    "token: a." + "a." * 500,
    "-----BEGIN PRIVATE KEY-----",
    "-----BEGIN ",
    "Bearer ",
    "Bearer " + "=" * 4000 + " ",
    "--token ",
    "--a-",
    "<token>",
    "<a",
    "token','value':",
    "token)=(",
    "eyJaaaaaaaa.",
    "-eyJaaaaaaaa",
    "-SG.",
    "'",
    '"',
    "\\",
]


def cpu_s(text: str, longest: int) -> float:
    """The least CPU time of three."""
    times: list[float] = []
    for _ in range(3):
        began = time.process_time()
        redact(text, longest)
        times.append(time.process_time() - began)
    return min(times)


@pytest.mark.parametrize("piece", HOSTILE)
def test_hostile_text_costs_little_more_than_ordinary_text(piece: str) -> None:
    """A pattern that looks ahead from each of its starts would need hundreds of times as long."""
    length = 30_000
    ordinary = "pass 3 the secret token -- key: bearer basic <token> postgres://db/x eyjafjalla "
    hostile = (piece * length)[:length]
    assert cpu_s(hostile, length) < 10 * cpu_s((ordinary * length)[:length], length)


@pytest.mark.parametrize("keep", ["start", "end", "both"])
def test_only_what_is_shown_is_searched(keep: Literal["start", "end", "both"]) -> None:
    read: list[int] = []

    class Counted(str):
        __slots__ = ()

        def lower(self) -> str:
            read.append(len(self))
            return super().lower()

        def __getitem__(self, part: Any) -> Counted:
            return Counted(super().__getitem__(part))

    shown = redact(Counted("://" * 300_000), 1_000, keep)
    assert len(shown) <= 1_000
    assert sum(read) <= 1_000 + 2 * MARGIN


def test_a_credential_at_a_cut_is_masked() -> None:
    for before in range(300):
        text = "x" * before + " password=hunter2hunter2 " + "y" * 10_000 + " password=hunter2hunter2 " + "x" * before
        assert "hunter2" not in redact(text, 300), before


@pytest.mark.parametrize("keep", ["start", "end", "both"])
@pytest.mark.parametrize("longest", [1_000, 30_000])
@pytest.mark.parametrize(
    "form",
    [
        "password={}",
        "token: '{}'",
        r'"{{\"token\": \"{}\"}}"',
        "Cookie: sid={}",
        "Authorization: Bearer {}",
        "sent Bearer {}",
        "mysql --password {}",
        "<token>{}</token>",
        "https://hooks.slack.com/services/{}",
        "https://user:{}@host/path",
        "https://{}@host/path",
        "ghp_{}",
        "hvs.{}",
    ],
)
def test_no_part_of_a_long_credential_is_shown(form: str, longest: int, keep: Literal["start", "end", "both"]) -> None:
    text = f"before {form.format('aB3x' * 5_000)}\nafter"
    shown = redact(text, longest, keep)
    assert "aB3x" not in shown
    assert len(shown) <= longest
