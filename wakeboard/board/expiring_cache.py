"""A cache whose memory is bounded, whatever clients send: by time, by number, and by the size of its keys."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Sequence

_Value = TypeVar("_Value")


class ExpiringCache(Generic[_Value]):
    """Keeps values for `keep_s` seconds, and at most `most` of them: the oldest one makes room.

    A key is a sequence of strings. The cache holds its SHA-256 only, so no token of a user stays in memory, and a long
    key takes no more room than a short one. `now` is a reading of a monotonic clock.
    """

    def __init__(self, *, keep_s: float, most: int) -> None:
        self._keep_s, self._most = keep_s, most
        self._kept: dict[bytes, tuple[float, _Value]] = {}  # the oldest first

    def get(self, key: Sequence[object], now: float) -> _Value | None:
        """The value that was kept under a key; None without one."""
        found = self._kept.get(_digest(key))
        return found[1] if found and now < found[0] else None

    def keep(self, key: Sequence[object], value: _Value, now: float) -> _Value:
        """Keeps a value and returns it."""
        digest = _digest(key)
        self._kept.pop(digest, None)  # so that it becomes the newest
        self._drop_old(now)
        self._kept[digest] = now + self._keep_s, value
        return value

    def __len__(self) -> int:
        """How many values are kept, also those that have expired since the last one was added."""
        return len(self._kept)

    def _drop_old(self, now: float) -> None:
        while self._kept:
            oldest = next(iter(self._kept))
            if self._kept[oldest][0] > now and len(self._kept) < self._most:
                return
            del self._kept[oldest]


def _digest(key: Sequence[object]) -> bytes:
    return hashlib.sha256(json.dumps(key).encode()).digest()
