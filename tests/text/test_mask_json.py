"""JSON is shown as it is stored, but for the values of secret keys."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wakeboard.text.mask_json import mask_json, pretty_json
from wakeboard.text.secret_keys import is_secret_key, may_hold_secret_keys

SECRET = [
    "password", "PASSWORD", "userPassword", "db_password", "passwd", "PGPASSWORD", "pwd", "passphrase", "secret",
    "client_secret", "clientSecret", "secretKey", "token", "accessToken", "access_token", "X-Auth-Token", "authtoken",
    "refreshTokens", "apiKey", "api_key", "API-KEY", "x-api-key", "apikeys", "privateKey", "private_key_pem",
    "aws_access_key_id",
    "credentials", "Authorization", "cookie", "Set-Cookie", "signature", "cvv", "pin", "otp",
    "database_dsn", "connectionString", "DB_PASS", "smtpPass", "AccountKey", "master_key",
]  # fmt: skip
PLAIN = [
    "customer", "order", "key", "keys", "pass", "passRate", "bypass", "passenger", "spinning", "compass", "author",
    "tokenizer", "assignment",
    "secretary_of"[:3], "pinned", "signed", "id", "", "monkey", "design",
]  # fmt: skip


@pytest.mark.parametrize("key", SECRET)
def test_a_key_of_a_credential_is_secret(key: str):
    assert is_secret_key(key)


@pytest.mark.parametrize("key", PLAIN)
def test_other_keys_are_not(key: str):
    assert not is_secret_key(key)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"password": "x"}', '{"password": "***"}'),
        ('{"a": [{"b": {"apiKey": "x", "c": 1}}]}', '{"a": [{"b": {"apiKey": "***", "c": 1}}]}'),
        ('{"credentials": {"user": "a", "list": [1, {"x": 2}]}, "b": 1}', '{"credentials": "***", "b": 1}'),
        ('{"pin": 1234, "secret": [1, 2]}', '{"pin": "***", "secret": "***"}'),
        ('{"password": null, "token": "", "secret": false}', '{"password": null, "token": "", "secret": false}'),
        ('{"max_tokens": 4096, "tokens": ["x"]}', '{"max_tokens": 4096, "tokens": "***"}'),
        (r'{"pass\u0077ord": "x"}', r'{"pass\u0077ord": "***"}'),
        (r'{"a": "\"password\": \"x\"", "password": "a\"}, "}', r'{"a": "\"password\": \"x\"", "password": "***"}'),
        ('["password", "x"]', '["password", "x"]'),
        ('"password"', '"password"'),
        ("9223372036854775808", "9223372036854775808"),
        ('{"n": 9223372036854775808, "f": 1.10, "e": 1e400}', '{"n": 9223372036854775808, "f": 1.10, "e": 1e400}'),
    ],
)
def test_only_values_of_secret_keys_are_replaced(text: str, expected: str):
    masked = mask_json(text)
    assert masked.text == expected
    assert masked.masked == expected.count("***")


def keys_of(value: Any) -> list[str]:
    match value:
        case dict():
            return [each for key, inner in value.items() for each in (key, *keys_of(inner))]  # type: ignore[misc]
        case list():
            return [key for inner in value for key in keys_of(inner)]  # type: ignore[misc]
        case _:
            return []


def with_odd_characters(key: str, odd: str, at: int) -> str:
    return key[:at] + odd + key[at:]


KEYS = st.builds(
    with_odd_characters, st.sampled_from([*SECRET, *PLAIN]) | st.text(), st.text(max_size=2), st.integers(0, 8)
)
OBJECTS: st.SearchStrategy[Any] = st.recursive(
    st.none(),
    lambda inner: st.dictionaries(KEYS, inner) | st.lists(inner),  # pyright: ignore[reportUnknownLambdaType]
    max_leaves=5,
)


@given(OBJECTS)
def test_a_text_in_which_no_secret_key_may_be_has_none(value: Any):
    text = json.dumps(value, ensure_ascii=False)
    found = any(is_secret_key(key) for key in keys_of(value))
    assert found <= may_hold_secret_keys(text.encode(errors="surrogatepass"))


def test_pretty_json_keeps_numbers_and_escapes_what_reorders_text():
    text = '{"n": 9223372036854775808, "f": 1.10, "empty": {}, "none": [], "list": [1, "a, b: {}"], "rtl": "\u202eabc"}'

    assert pretty_json(text) == (
        '{\n  "n": 9223372036854775808,\n  "f": 1.10,\n  "empty": {},\n  "none": [],\n  "list": [\n    1,\n'
        '    "a, b: {}"\n  ],\n  "rtl": "\\u202eabc"\n}'
    )


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.sampled_from(["password", "token"]), inner),
    max_leaves=20,
)


@given(JSON)
def test_pretty_and_masked_json_mean_the_same_but_for_secrets(value: Any):
    text = json.dumps(value, ensure_ascii=False)

    assert json.loads(pretty_json(text)) == value
    assert json.loads(mask_json(text).text) == masked(value)


def masked(value: Any) -> Any:
    match value:
        case dict():
            return {key: "***" if hides(key, inner) else masked(inner) for key, inner in value.items()}  # type: ignore[misc]
        case list():
            return [masked(inner) for inner in value]  # type: ignore[misc]
        case _:
            return value


def hides(key: str, value: Any) -> bool:
    if value is None or isinstance(value, bool) or value == "":
        return False
    return is_secret_key(key) and not (isinstance(value, int) and key.lower().endswith("tokens"))
