"""Tokens with which a browser may watch one run, and do nothing else.

A token is a JSON Web Token (RFC 7519) that an application signs with HMAC-SHA256, so any language can make one:

    {"alg": "HS256", "typ": "JWT"} . {"aud": "wakeboard:run", "sub": UUID, "run": ID, "exp": seconds since 1970}

The id finds the run, and the uuid says that it is this one: after a restore another run may get the id. Nothing of a
token is parsed before its signature is right, and its header chooses neither the algorithm nor the key. The audience
keeps other tokens that were signed with the same secret from being accepted.
"""

from __future__ import annotations

import hmac
import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, Protocol
from uuid import UUID

from wakeboard.errors import InvalidValue
from wakeboard.text.humanize import counted
from wakeboard.text.object_ids import is_id

if TYPE_CHECKING:
    from collections.abc import Iterable

AUDIENCE: Final = "wakeboard:run"
MIN_SECRET: Final = 32  # characters: as long as what HMAC-SHA256 makes (RFC 7518, 3.2)
MAX_TOKEN: Final = 1024  # characters
_HEADER: Final = {"alg": "HS256", "typ": "JWT"}


class EnqueuedRun(Protocol):
    """What `enqueue` returned, or the `Run` of a handler."""

    @property
    def id(self) -> int:
        """Its id."""
        ...

    @property
    def uuid(self) -> UUID | None:
        """Its uuid; None: another database role enqueued it."""
        ...


@dataclass(frozen=True, slots=True)
class RunToken:
    """What a token says: it names a run, until a time."""

    id: int
    uuid: UUID
    expires: datetime


def run_token(run: EnqueuedRun, secret: str, *, expires: datetime) -> str:
    """A token with which a browser may read the progress, steps and result of this run until `expires`.

    `run`: what `enqueue` returned. `secret`: one of WAKEBOARD_BOARD_WATCH_SECRETS_FILE, with 32 characters or more.
    Raises InvalidValue for a shorter one, for a time without a zone, and for a run that another database role enqueued.
    """
    if len(secret) < MIN_SECRET:
        raise InvalidValue(
            f"the secret has {counted(len(secret), 'character')}: write {MIN_SECRET} or more random ones"
        )
    if not isinstance(expires, datetime) or expires.tzinfo is None:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidValue("expires is no time with a time zone: write datetime.now(UTC) + timedelta(hours=1)")
    if not hasattr(run, "uuid"):
        raise InvalidValue("the run has no uuid: pass what enqueue returned, or the Run of a handler")
    if run.uuid is None:
        raise InvalidValue(f"run {run.id} was enqueued by another database role, so this one may not show it")
    claims = {"aud": AUDIENCE, "sub": str(run.uuid), "run": run.id, "exp": int(expires.timestamp())}
    signed = f"{_part(_HEADER)}.{_part(claims)}"
    return f"{signed}.{_signature(signed, secret)}"


def verify_run_token(token: str, secrets: Iterable[str], now: datetime) -> RunToken | None:
    """What a token says, if one of the secrets signed it and it has not expired; otherwise None."""
    signed, _, signature = token.rpartition(".")
    if len(token) > MAX_TOKEN or not token.isascii():
        return None
    if not any([hmac.compare_digest(signature, _signature(signed, each)) for each in secrets]):  # noqa: C419 - all of them
        return None
    try:
        header, claims = (_value(part) for part in signed.split("."))
        if header["alg"] != _HEADER["alg"] or "crit" in header or claims["aud"] != AUDIENCE or not is_id(claims["run"]):
            return None
        found = RunToken(claims["run"], UUID(claims["sub"]), datetime.fromtimestamp(claims["exp"], UTC))
    except (ValueError, TypeError, LookupError, AttributeError, OverflowError, OSError, RecursionError):
        return None
    return found if now < found.expires else None


def _part(value: Any) -> str:
    return _text(json.dumps(value, separators=(",", ":")).encode())


def _value(part: str) -> Any:
    return json.loads(urlsafe_b64decode(part + "=" * (-len(part) % 4)))


def _signature(signed: str, secret: str) -> str:
    return _text(hmac.digest(secret.encode(), signed.encode(), "sha256"))


def _text(data: bytes) -> str:
    return urlsafe_b64encode(data).decode().rstrip("=")
