"""Masks the lines of one attempt: the secrets of its payload, and what looks like a credential."""

from __future__ import annotations

import json
from contextlib import suppress
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, cast

from wakeboard.errors import WakeboardError
from wakeboard.logs.rules import MAX_LINE, Line
from wakeboard.secrets import KEY, Secrets
from wakeboard.text.redact import MASK, redact
from wakeboard.text.secret_keys import is_secret_key

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from wakeboard_worker.attempt import Attempt

SHORTEST_SECRET: Final = 4  # characters of a payload's value that is masked
LONGEST_SOURCE: Final = 200  # characters

_KEY_BEGIN, _KEY_END = "-----BEGIN", "-----END"
_NESTED: Final = (dict, list)
_is_secret_key = lru_cache(maxsize=1_000)(is_secret_key)  # the payloads of a job type have the same keys


class LineMask:
    """The mask of one attempt. It sees all lines in their order, because a private key has several."""

    __slots__ = ("_in_key", "_secrets")

    def __init__(self, attempt: Attempt, folder: str) -> None:
        self._in_key = False
        self._secrets = _secrets_of(attempt, folder)

    def lines(self, lines: Iterable[Line]) -> list[Line]:
        """The lines without secrets."""
        return [
            Line(number, at, level, source[:LONGEST_SOURCE], self._masked(text))
            for number, at, level, source, text in lines
        ]

    def _masked(self, text: str) -> str:
        if self._in_key:
            self._in_key = _KEY_END not in text
            return MASK
        self._in_key = _KEY_BEGIN in text and "PRIVATE KEY" in text and _KEY_END not in text
        return redact(self._secrets.redact(text) if self._secrets else text, MAX_LINE, "start")


def may_have_secrets(attempt: Attempt) -> bool:
    """False if a look at the first level of the payload shows that it has none. A third of the time of a whole mask."""
    payload = json.loads(attempt.payload_json)
    if not isinstance(payload, dict):
        return True
    for name, item in cast("dict[str, Any]", payload).items():  # `any` would take twice as long
        if item.__class__ in _NESTED or name == KEY or _is_secret_key(name):
            return True
    return False


def _secrets_of(attempt: Attempt, folder: str) -> Secrets:
    """The secrets that the payload names, and its values under keys such as `password`."""
    secrets = Secrets(folder)
    for name, value in _secret_values(json.loads(attempt.payload_json), ""):
        if name == KEY:
            with suppress(WakeboardError):
                secrets.resolve({KEY: value})
        elif len(value) >= SHORTEST_SECRET:
            secrets.hide(value, name)
    return secrets


def _secret_values(value: Any, key: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        for name, item in cast("dict[str, Any]", value).items():
            yield from _secret_values(item, name if name == KEY or _is_secret_key(name) else key)
    elif isinstance(value, list):
        for item in cast("list[Any]", value):
            yield from _secret_values(item, key)
    elif key and isinstance(value, str | int) and not isinstance(value, bool):
        yield key, str(value)
