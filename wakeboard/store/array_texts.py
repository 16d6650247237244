"""Arrays as texts that Postgres reads. psycopg takes ten times as long for a list."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime


def number_array(values: Sequence[int]) -> str:
    """An array of numbers as Postgres reads it: '{1,2,3}'."""
    return "{" + str(list(values))[1:-1] + "}"


def text_array(values: Iterable[str | None]) -> str:
    """An array of texts as Postgres reads it; None becomes null."""
    quoted = (None if value is None else value.replace("\\", "\\\\").replace('"', '\\"') for value in values)
    return "{" + ",".join(["null" if value is None else f'"{value}"' for value in quoted]) + "}"


def moment_array(moments: Iterable[datetime | None]) -> str:
    """An array of times; None becomes null."""
    return f"{{{','.join([_text(moment) for moment in moments])}}}"


@lru_cache(maxsize=8192)
def _text(moment: datetime | None) -> str:
    return "null" if moment is None else str(moment)
