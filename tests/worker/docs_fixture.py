"""What the examples of docs/handlers.md import as `shop`: the reader's own code."""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import date

DSN = os.environ.get("WAKEBOARD_DSN", "")
_broken: set[str] = set()


def breaks(what: str) -> None:
    """The next call of this function fails."""
    _broken.add(what)


async def invoice(number: int) -> SimpleNamespace:
    return SimpleNamespace(address=f"customer-{number}@example.com", text="Please pay.")


async def mail(address: str, text: str) -> None:
    assert address
    assert text


async def rates(currency: str, day: date) -> SimpleNamespace:
    status = {"EUR": "not yet", "XXX": "no such currency", "JPY": "busy"}.get(currency, "ok")
    return SimpleNamespace(status=status, wait_s=30, rates=[day, currency])


def images(album: str) -> list[SimpleNamespace]:
    return [SimpleNamespace(shrink=lambda: album) for _ in range(3)]


def orders_of(week: str) -> list[tuple[str, int]]:
    return [(week, 1), (week, 2)]


def write_report(week: str, orders: list[list[object]]) -> str:
    assert orders == [[week, 1], [week, 2]]
    return f"report-{week}.txt"


async def upload(path: str) -> None:
    assert path
    if "upload" in _broken:
        _broken.remove("upload")
        raise ConnectionError("the network is away")


class Bank:
    """A provider that keeps to idempotency keys."""

    def __init__(self) -> None:
        self._paid: set[str] = set()

    async def knows(self, key: str) -> bool:
        return key in self._paid

    async def pay(self, cents: int, idempotency_key: str) -> None:
        assert cents
        self._paid.add(idempotency_key)


bank = Bank()
