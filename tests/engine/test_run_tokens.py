"""A run token names one run until it expires, and only who has the secret can make one."""

from __future__ import annotations

import json
from base64 import urlsafe_b64encode
from datetime import UTC, datetime, timedelta
from hmac import digest
from typing import Any, NamedTuple
from uuid import UUID

import pytest

from wakeboard import RunToken, run_token, verify_run_token
from wakeboard.errors import InvalidValue

NOW = datetime(2026, 11, 27, 12, tzinfo=UTC)
SOON = NOW + timedelta(hours=1)
SECRET, OTHER = "s" * 32, "t" * 32
HEADER = {"alg": "HS256", "typ": "JWT"}


class Enqueued(NamedTuple):
    id: int = 42
    uuid: UUID | None = UUID("0192f0c1-2a6b-4d33-8f0e-6a1b5c7d9e01")


CLAIMS = {"aud": "wakeboard:run", "sub": str(Enqueued().uuid), "run": 42, "exp": int(SOON.timestamp())}


def base64(data: bytes) -> str:
    return urlsafe_b64encode(data).decode().rstrip("=")


def signed(claims: Any = CLAIMS, header: Any = HEADER, secret: str = SECRET, hash_name: str = "sha256") -> str:
    """A token as any library would make it."""
    text = ".".join(base64(json.dumps(part).encode()) for part in (header, claims))
    return f"{text}.{base64(digest(secret.encode(), text.encode(), hash_name))}"


def test_a_token_says_which_run_until_when_by_any_of_the_secrets():
    token = run_token(Enqueued(), SECRET, expires=SOON)
    says = RunToken(42, UUID("0192f0c1-2a6b-4d33-8f0e-6a1b5c7d9e01"), SOON)

    assert verify_run_token(token, [SECRET], NOW) == says
    assert verify_run_token(token, [OTHER, SECRET], SOON - timedelta(seconds=1)) == says
    assert verify_run_token(signed(header={"typ": "JWT", "alg": "HS256", "kid": "1"}), [SECRET], NOW) == says
    assert len(token) < 300


def test_the_format_of_a_token_stays() -> None:
    token = (
        "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9."
        "eyJhdWQiOiJ3YWtlYm9hcmQ6cnVuIiwic3ViIjoiMDE5MmYwYzEtMmE2Yi00ZDMzLThmMGUtNmExYjVjN2Q5ZTAxIiwicnVuIjo0"
        "MiwiZXhwIjoxNzk1Nzg0NDAwfQ"
        ".hJOxXfkVNeaOG5K2__ilcwp80_ZxOIYSCMziparQkdA"
    )
    assert run_token(Enqueued(), SECRET, expires=SOON) == token


def test_no_forged_altered_or_expired_token_is_accepted():
    good = signed()
    head, claims, signature = good.split(".")
    other_claims = signed({**CLAIMS, "run": 43}, secret=OTHER).split(".")[1]
    none = base64(b'{"alg":"none"}')
    last = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    alike = signature[:-1] + last[last.index(signature[-1]) ^ 1]  # the same bytes, written in another way
    forged = [
        *("", ".", "..", "...", good[:-1], good + "A", good + ".", good + "=", f" {good}", f"{good}\n", alike),
        *(f"{none}.{claims}.", f"{none}.{claims}.{signature}", f"{head}.{other_claims}.{signature}"),
        *("\ud800.\ud800.\ud800", "é.é.é", "a" * 1_000_000, f"{head}.{claims}.{head}.{claims}.{signature}"),
        *(signed(secret=OTHER), signed(secret=""), signed(hash_name="sha512"), signed(header={"alg": "none"})),
        *(signed(header={**HEADER, "alg": alg}) for alg in ("HS512", "RS256", "hs256", None, ["HS256"])),
        *(signed(header={**HEADER, "crit": ["exp"]}), signed(header=[]), signed(header="HS256"), signed([])),
        *(signed({**CLAIMS, "aud": aud}) for aud in ("", None, "session", ["wakeboard:run", "session"])),
        *(
            signed({**CLAIMS, "exp": exp})
            for exp in (None, "2099", True, 0, 1e400, -1e400, float("nan"), 10**400, CLAIMS)
        ),
        *(signed({**CLAIMS, "run": run}) for run in (None, "42", True, 0, -1, 1 << 63, 4.2)),
        *(signed({**CLAIMS, "sub": sub}) for sub in (None, "", 42, "42", CLAIMS)),
        *(signed({name: value for name, value in CLAIMS.items() if name != left_out}) for left_out in CLAIMS),
        signed({**CLAIMS, "more": "x" * 2000}),
        json.dumps(["["] * 1000),
    ]
    assert [token[:200] for token in forged if verify_run_token(token, [SECRET], NOW)] == []
    assert verify_run_token(good, [SECRET], SOON) is None
    assert verify_run_token(good, [], NOW) is None
    assert verify_run_token(signed(secret=""), [SECRET], NOW) is None


@pytest.mark.parametrize(
    ("run", "secret", "expires"),
    [
        (Enqueued(), "s" * 31, SOON),
        (Enqueued(), SECRET, SOON.replace(tzinfo=None)),
        (Enqueued(uuid=None), SECRET, SOON),
        (Enqueued(), SECRET, timedelta(hours=1)),
        (7, SECRET, SOON),
    ],
)
def test_a_token_that_would_be_weak_or_wrong_is_not_made(run: Any, secret: str, expires: Any):
    with pytest.raises(InvalidValue):
        run_token(run, secret, expires=expires)
